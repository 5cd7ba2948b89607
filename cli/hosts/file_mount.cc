#include "cli/hosts/file_mount.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

constexpr Millis kTarMax = 600'000;
constexpr Bytes kListingMax = Bytes{64} << 20;

absl::StatusOr<std::string> DigestOfFile(const fs::path& path) {
  std::error_code error;
  if (fs::is_symlink(path, error)) return "link " + fs::read_symlink(path, error).string();
  RT_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path.string(), limits::kMountFileMax));
  const bool is_program = ::access(path.c_str(), X_OK) == 0;
  return Digest(bytes) + (is_program ? " x" : "");
}

absl::Status RunTar(const std::vector<std::string>& argv, std::string_view input) {
  RT_ASSIGN_OR_RETURN(ProgramResult done, RunProgram({.argv = argv}, input, kTarMax));
  if (done.exit.ok()) return absl::OkStatus();
  return absl::InternalError(
      ToAbsl("tar: " + ToString(done.exit) + ": " + std::string(Trim(done.output))));
}

}  // namespace

absl::StatusOr<FileMount> FileMount::Read(const std::string& target, const std::string& source) {
  FileMount mount;
  mount.target_ = target;
  std::error_code error;
  const fs::path path(source);
  mount.is_file_ = fs::is_regular_file(path, error);
  if (!mount.is_file_ && !fs::is_directory(path, error))
    return NotFound("file_mounts: '" + source + "' is neither a file nor a directory here",
                    "relative paths are below the working directory");
  if (mount.is_file_) {
    const fs::path absolute = fs::absolute(path);
    mount.root_ = absolute.parent_path().string();
    RT_ASSIGN_OR_RETURN(std::string digest, DigestOfFile(absolute));
    mount.files_.Set(absolute.filename().string(), std::move(digest));
    return mount;
  }
  mount.root_ = fs::absolute(path).lexically_normal().string();
  for (fs::recursive_directory_iterator at(mount.root_, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_regular_file() && !at->is_symlink()) continue;
    if (mount.files_.object().size() >= limits::kMountFilesMax)
      return Invalid("file_mounts: '" + source + "' has more than " +
                     std::to_string(limits::kMountFilesMax) + " files");
    RT_ASSIGN_OR_RETURN(std::string digest, DigestOfFile(at->path()));
    // Appended, because Set would look through all of them.
    mount.files_.object().emplace_back(at->path().lexically_relative(mount.root_).string(),
                                       Json(std::move(digest)));
  }
  if (error) return absl::InternalError(ToAbsl("read " + source + ": " + error.message()));
  return mount;
}

Json FileMount::Listing() const {
  return Json::MakeObject({{"target", target_}, {"is_file", is_file_}, {"files", files_}});
}

absl::StatusOr<std::string> FileMount::Pack(const std::vector<std::string>& files) const {
  RT_ASSIGN_OR_RETURN(const std::string stage, MakeTempDirectory("/tmp/rt-mount-"));
  const std::string file = stage + "/files.tar.gz";
  std::string names;
  for (const std::string& name : files) names += name + '\0';
  absl::Status packed = RunTar(
      {"tar", "-czf", file, "-C", root_, "--null", "--verbatim-files-from", "-T", "-"}, names);
  absl::StatusOr<std::string> bytes = packed.ok() ? ReadFile(file) : packed;
  RemoveTree(stage).IgnoreError();
  return bytes;
}

std::string PathOnHost(const std::string& target) {
  const char* home = std::getenv("HOME");
  if (!target.starts_with("~/") || home == nullptr) return target;
  return home + target.substr(1);
}

std::vector<std::string> MissingFiles(const Json& listing, const std::string& record) {
  Json before;
  if (absl::StatusOr<std::string> text = ReadFile(record, kListingMax); text.ok())
    if (absl::StatusOr<Json> json = Json::Parse(*text); json.ok()) before = *std::move(json);
  std::map<std::string, std::string> known;
  if (const Json* files = before.Find("files"); files != nullptr && files->is_object())
    for (const auto& [path, digest] : files->object())
      if (digest.is_string()) known[path] = digest.AsString();
  const std::filesystem::path target = PathOnHost(listing.GetString("target"));
  const bool is_file = listing.GetBool("is_file");
  std::vector<std::string> missing;
  const Json* files = listing.Find("files");
  if (files == nullptr || !files->is_object()) return missing;
  for (const auto& [path, digest] : files->object()) {
    const auto found = known.find(path);
    const bool is_same = found != known.end() && digest.is_string() &&
                         found->second == digest.AsString() &&
                         Exists((is_file ? target : target / path).string());
    if (!is_same) missing.push_back(path);
  }
  return missing;
}

absl::Status TakeFiles(const Json& listing, const std::string& archive, const std::string& record) {
  const fs::path target = PathOnHost(listing.GetString("target"));
  const bool is_file = listing.GetBool("is_file");
  std::error_code error;
  fs::create_directories(is_file ? target.parent_path() : target, error);
  if (error) return absl::InternalError(ToAbsl(target.string() + ": " + error.message()));
  if (!archive.empty() && !is_file)
    RT_RETURN_IF_ERROR(RunTar({"tar", "-xzof", "-", "-C", target.string()}, archive));
  if (!archive.empty() && is_file) {
    RT_ASSIGN_OR_RETURN(const std::string stage,
                        MakeTempDirectory((target.parent_path() / ".rt-").string()));
    absl::Status taken = RunTar({"tar", "-xzof", "-", "-C", stage}, archive);
    if (taken.ok() && !listing.Find("files")->object().empty())
      fs::rename(stage + "/" + listing.Find("files")->object()[0].first, target, error);
    if (error) taken = absl::InternalError(ToAbsl(target.string() + ": " + error.message()));
    RemoveTree(stage).IgnoreError();
    RT_RETURN_IF_ERROR(taken);
  }
  RT_RETURN_IF_ERROR(EnsureDirectory(fs::path(record).parent_path().string()));
  return WriteFileAtomic(record, listing.Dump() + "\n");
}

}  // namespace rt
