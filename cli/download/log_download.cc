#include "cli/download/log_download.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "cli/client/local_cluster.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Millis kPause = 200;
constexpr Millis kCallMax = 60'000;  // Then it is asked for the rest again, if anything came.
constexpr int kTriesMax = 25;  // Without a byte in between: a head that restarts is back by then.

struct Stream {
  Owner owner;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint32_t rank = 0;
  const char* name = "stdout";
};

// Grows under a name of its own, and goes unless it is given its final one.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  ~NewFile() {
    if (fd_ >= 0) ::close(fd_);
    if (fd_ >= 0 && !kept_) ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Append(std::string_view data) {
    if (fd_ < 0 && !data.empty()) {
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
      if (fd_ < 0) return ErrnoStatus(errno, "create " + path_);
    }
    bytes_ += static_cast<Bytes>(data.size());
    while (!data.empty()) {
      const ssize_t written = ::write(fd_, data.data(), data.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "write " + path_);
      data.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status RenameTo(const std::string& path) {
    if (::rename(path_.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename " + path_);
    kept_ = true;
    return absl::OkStatus();
  }
  Bytes bytes() const { return bytes_; }

 private:
  const std::string path_;
  int fd_ = -1;  // Made with the first byte.
  Bytes bytes_ = 0;
  bool kept_ = false;
};

// One call: from `offset` on, as far as it goes. `whole`: the last byte has come.
absl::Status ReadOnce(HeadClient& client, const Stream& stream, NewFile& file, uint64_t& offset,
                      bool& whole) {
  v1::ReadLogRequest request;
  request.mutable_owner()->set_kind(static_cast<uint32_t>(stream.owner.kind));
  request.mutable_owner()->set_group(stream.owner.group);
  request.mutable_owner()->set_number(stream.owner.number);
  request.set_attempt(stream.attempt);
  request.set_generation(stream.generation);
  request.set_rank(stream.rank);
  request.set_stream(stream.name);
  request.set_offset(offset);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(kCallMax));
  HeadClient::Registered registered(client, &context);
  auto reader = v1::JobService::NewStub(client.Channel())->ReadLog(&context, request);
  v1::LogChunk chunk;
  while (reader->Read(&chunk)) {
    std::string_view data = chunk.data();
    if (chunk.offset() < offset)
      data.remove_prefix(std::min<size_t>(offset - chunk.offset(), data.size()));
    if (absl::Status written = file.Append(data); !written.ok()) {
      context.TryCancel();
      reader->Finish();
      return written;
    }
    offset = std::max<uint64_t>(offset, chunk.offset() + chunk.data().size());
    whole = chunk.end();
  }
  return FromGrpc(reader->Finish());
}

absl::Status ReadWhole(HeadClient& client, const Stream& stream, NewFile& file) {
  uint64_t offset = 0;
  for (int tries = 0;;) {
    const uint64_t before = offset;
    bool whole = false;
    absl::Status status = ReadOnce(client, stream, file, offset, whole);
    if (status.ok() && whole) return status;
    if (status.ok()) status = absl::UnavailableError("the log broke off");
    const bool passes = absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
                        (absl::IsDeadlineExceeded(status) && offset != before);
    tries = offset == before ? tries + 1 : 0;
    if (client.cancelled() || !passes || tries >= kTriesMax) return status;
    SleepFor(kPause);
    client.Refresh().IgnoreError();  // A failure shows in the next try.
  }
}

struct AttemptInfo {
  uint32_t number = 0;
  uint32_t generation = 0;
  uint32_t ranks = 0;  // That were started.
  bool is_over = false;
};

std::vector<AttemptInfo> StartedAttempts(const Json& attempts) {
  std::vector<AttemptInfo> started;
  if (!attempts.is_array()) return started;
  for (const Json& attempt : attempts.array()) {
    AttemptInfo info{.number = static_cast<uint32_t>(attempt.GetInt("number")),
                     .generation = static_cast<uint32_t>(attempt.GetInt("generation")),
                     .ranks = 0,
                     .is_over = !attempt.GetString("ended_at").empty()};
    if (const Json* members = attempt.Find("members"); members != nullptr && members->is_array())
      for (const Json& member : members->array()) {
        const Json* pid = member.Find("pid");
        if (pid == nullptr || pid->is_null()) continue;
        info.ranks = std::max(info.ranks, static_cast<uint32_t>(member.GetInt("rank")) + 1);
      }
    if (info.ranks > 0) started.push_back(info);
  }
  return started;
}

// Changes with the attempts; empty while one runs, since there is more to come.
std::string VersionOf(const std::vector<AttemptInfo>& attempts, uint32_t rank) {
  std::string version;
  for (const AttemptInfo& attempt : attempts) {
    if (attempt.ranks <= rank) continue;
    if (!attempt.is_over) return "";
    version += "a" + std::to_string(attempt.number);
    if (attempt.generation > 1) version += "g" + std::to_string(attempt.generation);
  }
  return version;
}

// Of one rank and stream.
absl::Status DownloadStream(HeadClient& client, Stream stream,
                            const std::vector<AttemptInfo>& attempts, DownloadLog& log,
                            const std::string& directory, LogDownload& result) {
  const std::string ending = stream.rank == 0 ? "" : ".rank" + std::to_string(stream.rank);
  const std::string path = directory + stream.name + ending;
  const std::string version = VersionOf(attempts, stream.rank);
  if (!version.empty() && log.Has(path, version)) return absl::OkStatus();
  NewFile file(log.directory() + "/" + directory + "." + stream.name + ending + ".rt-part");
  for (const AttemptInfo& attempt : attempts) {
    if (attempt.ranks <= stream.rank) continue;
    stream.attempt = attempt.number;
    stream.generation = attempt.generation;
    absl::Status status = ReadWhole(client, stream, file);
    const bool gone = absl::IsNotFound(status) || absl::IsDataLoss(status);
    if (gone)
      result.gone.push_back(std::string(stream.name) + " of attempt " +
                            std::to_string(attempt.number) + ": " + MessageOf(status));
    else if (!status.ok()) return status;
  }
  if (file.bytes() > 0) {
    RT_RETURN_IF_ERROR(file.RenameTo(log.directory() + "/" + path));
    result.bytes += file.bytes();
    ++result.files;
  }
  log.Note(path, version);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LogDownload> DownloadLogs(HeadClient& client, const Owner& owner,
                                         const Json& attempts, DownloadLog& log,
                                         const std::string& directory) {
  const std::vector<AttemptInfo> started = StartedAttempts(attempts);
  LogDownload result;
  uint32_t ranks = 0;
  for (const AttemptInfo& attempt : started) ranks = std::max(ranks, attempt.ranks);
  const std::string inside = directory.empty() ? "" : directory + "/";
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (const char* name : {"stdout", "stderr"})
      RT_RETURN_IF_ERROR(DownloadStream(client, {.owner = owner, .rank = rank, .name = name},
                                        started, log, inside, result));
  return result;
}

}  // namespace rt
