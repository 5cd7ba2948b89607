#include "common/programs/programs_archive.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "common/run/python_dir.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrograms[] = {"rt", "rt-cli", "rt-head", "rt-worker", "rt-shim"};
// Those of an installation that has them: rt-probe is built only where there is nvcc. It contains
// CUDA's runtime, and opens NCCL and the driver when it runs.
constexpr const char* kForGpus[] = {"rt-probe", "rt-gpu-suspend"};
// Every Linux has these, and they must fit its loader.
constexpr const char* kOfTheSystem[] = {"linux-vdso.", "ld-linux",    "libc.",  "libm.",
                                        "libdl.",      "libpthread.", "librt.", "libresolv."};
constexpr Millis kToolMax = 120'000;
constexpr Bytes kStampFileMax = 4'096;

bool IsOfTheSystem(std::string_view name) {
  return std::any_of(std::begin(kOfTheSystem), std::end(kOfTheSystem),
                     [&](const char* start) { return name.starts_with(start); });
}

std::vector<std::string> OwnEnvironmentAnd(const std::string& more) {
  std::vector<std::string> env;
  for (char** at = environ; *at != nullptr; ++at) env.emplace_back(*at);
  env.push_back(more);
  return env;
}

// Name -> path of the shared libraries that the loader finds for a program; a static one has none.
absl::StatusOr<std::map<std::string, std::string>> LibrariesOf(const std::string& program) {
  std::map<std::string, std::string> found;
  RT_ASSIGN_OR_RETURN(ProgramResult listed,
                      RunProgram({.argv = {program, "--version"},
                                  .env = OwnEnvironmentAnd("LD_TRACE_LOADED_OBJECTS=1")},
                                 "", kToolMax));
  for (const std::string& line : Split(listed.output, '\n')) {
    const size_t arrow = line.find(" => ");
    if (arrow == std::string::npos) continue;
    const std::string name(Trim(std::string_view(line).substr(0, arrow)));
    const std::string path = line.substr(arrow + 4, line.find(" (", arrow) - arrow - 4);
    if (IsOfTheSystem(name)) continue;
    if (!path.starts_with('/'))
      return absl::FailedPreconditionError(
          ToAbsl("the library " + name + " of rt is not installed here"));
    found[name] = path;
  }
  return found;
}

absl::Status RunTool(const std::vector<std::string>& argv) {
  RT_ASSIGN_OR_RETURN(ProgramResult done, RunProgram({.argv = argv}, "", kToolMax));
  if (done.exit.ok()) return absl::OkStatus();
  return absl::InternalError(ToAbsl(argv[0] + ": " + ToString(done.exit) + ": " + done.output));
}

}  // namespace

ProgramsArchive::ProgramsArchive(ProgramsArchive&& other) noexcept
    : directory_(std::move(other.directory_)), digest_(std::move(other.digest_)),
      parts_(std::move(other.parts_)) {}

absl::StatusOr<std::vector<ProgramsArchive::Part>> ProgramsArchive::Parts() {
  RT_ASSIGN_OR_RETURN(const std::string binaries, BinaryDirectory());
  std::vector<Part> parts;
  std::map<std::string, std::string> libraries;
  for (const char* program : kPrograms) {
    const std::string path = binaries + "/" + program;
    if (!Exists(path))
      return NotFound(path + " is missing", "install rt again: its programs belong together");
    parts.push_back({path, std::string("bin/") + program});
    if (std::string_view(program) == "rt" || std::string_view(program) == "rt-shim") continue;
    RT_ASSIGN_OR_RETURN(auto found, LibrariesOf(path));
    libraries.insert(found.begin(), found.end());
  }
  for (const char* program : kForGpus) {
    const std::string path = binaries + "/" + program;
    if (!Exists(path)) continue;
    parts.push_back({path, std::string("bin/") + program});
    RT_ASSIGN_OR_RETURN(auto found, LibrariesOf(path));
    libraries.insert(found.begin(), found.end());
  }
  for (const auto& [name, path] : libraries) parts.push_back({path, "lib/rt/" + name});
  const std::string python = FindPythonDir(binaries);
  std::error_code error;
  if (!python.empty())
    for (fs::recursive_directory_iterator at(python + "/rt", error), end; !error && at != end;
         at.increment(error)) {
      const std::string path = at->path().string();
      if (!at->is_regular_file() || path.find("/__pycache__/") != std::string::npos) continue;
      parts.push_back({path, "share/rt/python" + path.substr(python.size())});
    }
  if (error) return absl::InternalError(ToAbsl("read " + python + ": " + error.message()));
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.target < b.target; });
  return parts;
}

absl::StatusOr<std::string> ProgramsArchive::StampOf(const std::vector<Part>& parts) {
  Hasher hasher;
  for (const Part& part : parts) {
    struct stat info {};
    if (::stat(part.source.c_str(), &info) != 0) return ErrnoStatus(errno, part.source);
    hasher.Update(part.source + '\0' + part.target + '\0' + std::to_string(info.st_size) + ' ' +
                  std::to_string(info.st_ino) + ' ' + std::to_string(info.st_mtim.tv_sec) + '.' +
                  std::to_string(info.st_mtim.tv_nsec) + '\n');
  }
  return std::string(DigestHex(hasher.Finish()));
}

absl::StatusOr<std::string> ProgramsArchive::DigestOf(const std::vector<Part>& parts) {
  Hasher hasher;
  for (const Part& part : parts) {
    RT_ASSIGN_OR_RETURN(std::string bytes, ReadFile(part.source));
    hasher.Update(part.target + ' ' + std::to_string(bytes.size()) + '\n');
    hasher.Update(bytes);
  }
  return std::string(DigestHex(hasher.Finish()));
}

absl::StatusOr<ProgramsArchive> ProgramsArchive::Open(const std::string& directory) {
  ProgramsArchive archive;
  archive.directory_ = directory;
  RT_RETURN_IF_ERROR(EnsureDirectory(directory));
  RT_ASSIGN_OR_RETURN(archive.parts_, Parts());
  RT_ASSIGN_OR_RETURN(const std::string stamp, StampOf(archive.parts_));
  const std::string note = directory + "/digest";
  absl::StatusOr<std::string> known = ReadFile(note, kStampFileMax);
  if (known.ok() && known->starts_with(stamp + " ")) {
    archive.digest_ = std::string(Trim(known->substr(stamp.size())));
    if (archive.digest_.size() == stamp.size()) return archive;
  }
  RT_ASSIGN_OR_RETURN(archive.digest_, DigestOf(archive.parts_));
  RT_RETURN_IF_ERROR(WriteFileAtomic(note, stamp + " " + archive.digest_ + "\n", {.sync = false}));
  return archive;
}

absl::StatusOr<std::string> ProgramsArchive::File() {
  std::lock_guard lock(mutex_);
  const std::string file = directory_ + "/" + digest_ + ".tar.gz";
  if (Exists(file)) return file;
  RT_RETURN_IF_ERROR(Annotate(Make(file), "pack the programs"));
  return file;
}

// Debug information stays here where there is a program that takes it out.
absl::Status ProgramsArchive::Make(const std::string& file) const {
  RT_ASSIGN_OR_RETURN(const std::string stage, MakeTempDirectory(directory_ + "/stage-"));
  auto fill = [&]() -> absl::Status {
    std::vector<std::string> strip = {"strip", "-g"};
    std::error_code error;
    for (const char* folder : {"/bin", "/lib", "/share"})  // One may have nothing in it.
      fs::create_directory(stage + folder, error);
    for (const Part& part : parts_) {
      const fs::path target = stage + "/" + part.target;
      fs::create_directories(target.parent_path(), error);
      if (!error) fs::copy_file(part.source, target, error);
      if (error) return absl::InternalError(ToAbsl(part.source + ": " + error.message()));
      const bool is_program = part.target.starts_with("bin/");
      fs::permissions(target, is_program ? fs::perms(0700) : fs::perms(0600), error);
      if (is_program || part.target.starts_with("lib/")) strip.push_back(target.string());
    }
    if (!Exists(stage + "/bin/rt-probe")) {
      RT_LOG(kInfo) << "other machines get no rt-probe: it was not built here (no nvcc)";
    }
    if (FindProgram("strip").ok()) RT_RETURN_IF_ERROR(RunTool(strip));
    const std::string part = stage + ".tar.gz";
    RT_RETURN_IF_ERROR(RunTool({"tar", "-cf", part, "--use-compress-program=gzip -1", "-C", stage,
                                "--sort=name", "--owner=0", "--group=0", "--numeric-owner",
                                "--mtime=@0", "bin", "lib", "share"}));
    for (const auto& entry : fs::directory_iterator(directory_, error))  // Of earlier versions.
      if (entry.path().string().ends_with(".tar.gz") && entry.path() != part)
        fs::remove(entry.path(), error);
    return ::rename(part.c_str(), file.c_str()) == 0 ? absl::OkStatus()
                                                     : ErrnoStatus(errno, "rename " + part);
  };
  absl::Status made = fill();
  RemoveTree(stage).IgnoreError();
  if (!made.ok()) RemoveTree(stage + ".tar.gz").IgnoreError();
  return made;
}

}  // namespace rt
