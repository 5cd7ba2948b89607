#include "common/run/runtime_dir.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Bytes kRecordBytesMax = 4'096;
// The name of a socket needs up to 70 bytes after the directory.
constexpr size_t kBaseBytesMax = 26;
constexpr char kPrefix[] = "rt-";

std::string RecordOf(const std::string& state_dir) { return state_dir + "/runtime-dir"; }

// A directory that nobody else may enter, and no link to one.
bool IsOursAlone(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::getuid() && (info.st_mode & 077) == 0;
}

// Release 0.1 used this name, which anybody can compute.
std::string DerivedDir(const std::string& state_dir) {
  uint64_t hash = 0;
  for (char letter : state_dir) hash = Mix64(hash ^ static_cast<unsigned char>(letter));
  char path[64];
  std::snprintf(path, sizeof path, "/tmp/rt-%u-%08x", ::getuid(), static_cast<unsigned>(hash));
  return path;
}

// What STATE_DIR/runtime-dir names; nullopt when that cannot be a directory of a worker.
std::optional<std::string> Recorded(const std::string& state_dir) {
  absl::StatusOr<std::string> text = ReadFile(RecordOf(state_dir), kRecordBytesMax);
  if (!text.ok()) return std::nullopt;
  const std::filesystem::path path(std::string(Trim(*text)));
  const bool fits = path.is_absolute() && path == path.lexically_normal() &&
                    path.filename().string().starts_with(kPrefix) &&
                    path.parent_path().string().size() <= kBaseBytesMax;
  return fits ? std::optional(path.string()) : std::nullopt;
}

// A login manager deletes its XDG_RUNTIME_DIR with the user's last session, which workers outlive,
// unless the user lingers.
bool OutlivesSessions(const std::string& directory) {
  if (!directory.starts_with("/run/user/")) return true;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr && Exists(std::string("/var/lib/systemd/linger/") + user->pw_name);
}

std::string BaseDir() {
  const char* told = std::getenv("XDG_RUNTIME_DIR");
  const std::string wanted = told == nullptr ? "" : told;
  const bool fits = wanted.starts_with('/') && wanted.size() <= kBaseBytesMax &&
                    IsOursAlone(wanted) && OutlivesSessions(wanted);
  return fits ? wanted : "/tmp";
}

absl::Status Record(const std::string& state_dir, const std::string& path) {
  return WriteFileAtomic(RecordOf(state_dir), path + "\n");
}

}  // namespace

absl::StatusOr<std::string> MakeRuntimeDir(const std::string& state_dir) {
  if (const std::optional<std::string> known = Recorded(state_dir)) {
    // Gone after a reboot, or because /tmp is swept: what still runs looks for its socket there.
    if (::mkdir(known->c_str(), 0700) == 0 || IsOursAlone(*known)) return *known;
  } else if (const std::string derived = DerivedDir(state_dir); IsOursAlone(derived)) {
    RT_RETURN_IF_ERROR(Record(state_dir, derived));
    return derived;
  }
  RT_ASSIGN_OR_RETURN(std::string made, MakeTempDirectory(BaseDir() + "/" + kPrefix));
  RT_RETURN_IF_ERROR(Record(state_dir, made));
  return made;
}

std::optional<std::string> FindRuntimeDir(const std::string& state_dir) {
  const std::optional<std::string> known = Recorded(state_dir);
  const std::string path = known ? *known : DerivedDir(state_dir);
  return IsOursAlone(path) ? std::optional(path) : std::nullopt;
}

}  // namespace rt
