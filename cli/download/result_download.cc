// The result files of an experiment, from the head's results directory into ours.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cli/download/download_parts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/manifest.h"
#include "common/cas/parallel.h"
#include "common/run/files.h"

namespace rt {
namespace {

using Experiments = v1::ExperimentService;
constexpr size_t kFilesAtOnce = 8;
constexpr Millis kPieceMax = 45'000;  // On top of an ordinary answer: 1 MiB over a slow line.
constexpr int kReplacedMax = 10;  // A file that is rewritten while it is read is read again.

std::string VersionOf(const v1::ResultFile& file) {
  return std::to_string(file.serial()) + "." + std::to_string(file.bytes()) + "." +
         std::to_string(file.modified_ns());
}

absl::StatusOr<std::vector<v1::ResultFile>> ListFiles(HeadClient& client, uint64_t experiment) {
  v1::ListResultsRequest request;
  request.set_experiment(experiment);
  std::vector<v1::ResultFile> files;
  while (true) {
    RT_ASSIGN_OR_RETURN(v1::ListResultsReply reply,
                        client.Call<Experiments>(&Experiments::Stub::ListResults, request));
    files.insert(files.end(), reply.files().begin(), reply.files().end());
    if (reply.next() == 0) return files;
    request.set_from(reply.next());
  }
}

// Aborted when another file has taken its name meanwhile.
absl::StatusOr<Bytes> CopyOnce(HeadClient& client, v1::ReadResultRequest request,
                               const std::string& part, std::string& version) {
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  uint64_t serial = 0;
  Bytes bytes = 0;
  while (true) {
    request.set_offset(static_cast<uint64_t>(bytes));
    RT_ASSIGN_OR_RETURN(v1::ReadResultReply reply,
                        client.Call<Experiments>(&Experiments::Stub::ReadResult, request,
                                                 kPieceMax));
    if (bytes == 0 && version.empty()) {
      serial = reply.file().serial();
      version = VersionOf(reply.file());
    }
    if (reply.file().serial() != serial) return absl::AbortedError("it was replaced");
    if (reply.data().empty()) break;
    file.write(reply.data().data(), static_cast<std::streamsize>(reply.data().size()));
    bytes += static_cast<Bytes>(reply.data().size());
  }
  file.close();
  if (!file) return absl::UnavailableError(ToAbsl("write " + part + " failed"));
  return bytes;
}

absl::Status CopyFile(HeadClient& client, uint64_t experiment, const v1::ResultFile& wanted,
                      DownloadLog& log, DownloadTally& tally) {
  RT_RETURN_IF_ERROR(CheckDownloadPath(wanted.path()));
  if (log.Has(wanted.path(), VersionOf(wanted))) return absl::OkStatus();
  RT_RETURN_IF_ERROR(CheckNoLink(log.directory(), wanted.path()));
  const std::filesystem::path target(log.directory() + "/" + wanted.path());
  RT_RETURN_IF_ERROR(EnsureDirectory(target.parent_path().string(), 0755));
  const std::string part =
      (target.parent_path() / ("." + target.filename().string() + ".rt-part")).string();
  v1::ReadResultRequest request;
  request.set_experiment(experiment);
  request.set_path(wanted.path());
  for (int tries = 0;; ++tries) {
    std::string version;
    absl::StatusOr<Bytes> bytes = CopyOnce(client, request, part, version);
    if (absl::IsAborted(bytes.status()) && tries < kReplacedMax) continue;
    std::error_code error;
    if (bytes.ok()) std::filesystem::rename(part, target, error);
    if (!bytes.ok() || error) ::unlink(part.c_str());
    if (absl::IsNotFound(bytes.status())) return absl::OkStatus();  // Gone since it was listed.
    if (!bytes.ok()) return bytes.status();
    if (error) return ErrnoStatus(error.value(), "rename " + part);
    log.Note(wanted.path(), version);
    tally.Fetched(1, *bytes);
    return log.SaveSometimes();
  }
}

}  // namespace

absl::Status RemoveUnlisted(const std::set<std::string>& listed, DownloadLog& log) {
  for (const std::string& path : log.Below("")) {
    if (std::filesystem::path(path).filename() != "error.txt" || listed.contains(path)) continue;
    if (CheckNoLink(log.directory(), path).ok())
      RT_RETURN_IF_ERROR(RemoveTree(log.directory() + "/" + path));
    log.Forget(path);
  }
  return absl::OkStatus();
}

absl::Status DownloadResultFiles(HeadClient& client, uint64_t experiment, DownloadLog& log,
                                 DownloadTally& tally) {
  RT_ASSIGN_OR_RETURN(std::vector<v1::ResultFile> files, ListFiles(client, experiment));
  std::set<std::string> listed;
  for (const v1::ResultFile& file : files) listed.insert(file.path());
  RT_RETURN_IF_ERROR(RemoveUnlisted(listed, log));
  return ForEachParallel(files.size(), kFilesAtOnce, [&](size_t i) {
    const absl::Status copied = CopyFile(client, experiment, files[i], log, tally);
    if (!copied.ok()) tally.Missing(EscapeControl(files[i].path()), copied);
    return client.cancelled() ? absl::CancelledError("interrupted") : absl::OkStatus();
  });
}

}  // namespace rt
