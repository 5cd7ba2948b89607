#include "worker/session/written.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/manifest.h"
#include "common/run/files.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {
namespace {

constexpr std::string_view kCaches[] = {
    "__pycache__", ".git",          ".hg",         ".svn",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"};
constexpr char kCacheTag[] = "CACHEDIR.TAG";
constexpr std::string_view kCacheSignature = "Signature: 8a477f597d28d172789f06886806bc55";
// What the Python package stages in the trial directory, until it is taken as a checkpoint.
constexpr std::string_view kStaging = ".checkpoint-";
constexpr Bytes kCompareBytes = 1 << 20;
// A file system stamps files with the time of its last tick. A file of the bundle that was unpacked
// this shortly before the program began may have been written again under the same time.
constexpr Millis kTick = 50;
constexpr size_t kLooksMax = 1'000;
constexpr size_t kEntriesMax = 1'000'000;  // Of one place: bounded memory.

bool IsCache(const std::string& name, const std::string& path) {
  if (std::find(std::begin(kCaches), std::end(kCaches), name) != std::end(kCaches)) return true;
  if (name.starts_with(kStaging)) return true;
  auto tag = ReadPiece(path + "/" + kCacheTag, 0, Bytes{kCacheSignature.size()});
  return tag.ok() && *tag == kCacheSignature;
}

// Of two files of this size.
bool HaveSameBytes(const std::string& a, const std::string& b, Bytes size) {
  for (Bytes at = 0; at < size; at += kCompareBytes) {
    const Bytes count = std::min(kCompareBytes, size - at);
    auto one = ReadPiece(a, at, count), other = ReadPiece(b, at, count);
    if (!one.ok() || !other.ok() || *one != *other) return false;
  }
  return true;
}

enum class Change { kNone, kPerhaps, kNew };

// Of a file or link beside the one at `path` below the baseline's tree.
Change ChangeOf(const std::string& path, const struct stat& info, const std::string& original,
                Millis since) {
  struct stat was {};
  if (original.empty() || ::lstat(original.c_str(), &was) != 0) return Change::kNew;
  if ((was.st_mode & S_IFMT) != (info.st_mode & S_IFMT)) return Change::kNew;
  if (S_ISLNK(info.st_mode)) return LinkOf(path) == LinkOf(original) ? Change::kNone : Change::kNew;
  if (!S_ISREG(info.st_mode) || was.st_size != info.st_size || was.st_mode != info.st_mode)
    return Change::kNew;
  const bool is_same_time =
      was.st_mtim.tv_sec == info.st_mtim.tv_sec && was.st_mtim.tv_nsec == info.st_mtim.tv_nsec;
  const Millis written_at = Millis{info.st_mtim.tv_sec} * 1'000 + info.st_mtim.tv_nsec / 1'000'000;
  return is_same_time && written_at + kTick < since ? Change::kNone : Change::kPerhaps;
}

// A file or link, or a directory that is empty or cannot be listed.
struct Found {
  std::string path;  // Of the file system.
  std::string relative;
  std::string original;  // The bundle's, if it has one.
  struct stat info {};
  Change change = Change::kNone;
  bool is_unreadable = false;
};

std::unique_ptr<DIR, int (*)(DIR*)> OpenDirectory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* stream = fd < 0 ? nullptr : ::fdopendir(fd);
  if (stream == nullptr && fd >= 0) ::close(fd);
  return {stream, ::closedir};
}

// Walks a directory in order of names, and the baseline's beside it.
class Walk {
 public:
  // `visit` gets what is not, or may not be, as it was; false: it wants no more. `looks`: entries
  // that it looks at.
  Walk(Millis since, size_t looks, std::function<bool(const Found&)> visit)
      : since_(since), looks_left_(looks), visit_(std::move(visit)) {}

  // False: `visit` wanted no more, or there is more than it may look at.
  bool Directory(const std::string& path, const std::string& relative,
                 const std::string& original) {
    auto stream = OpenDirectory(path);
    if (stream == nullptr) return Unlisted(path, relative);
    std::set<std::string> names;
    while (const dirent* entry = ::readdir(stream.get())) names.insert(entry->d_name);
    stream.reset();
    names.erase(".");
    names.erase("..");
    for (const std::string& name : names) {
      if (looks_left_ == 0) return false;
      --looks_left_;
      if (!Entry(path + "/" + name, relative + name, original.empty() ? "" : original + "/" + name,
                 name))
        return false;
    }
    struct stat was {};
    const bool is_new =
        original.empty() || ::lstat(original.c_str(), &was) != 0 || !S_ISDIR(was.st_mode);
    if (!names.empty() || !is_new || relative.empty()) return true;
    return Visit({.path = path,
                  .relative = relative.substr(0, relative.size() - 1),
                  .change = Change::kNew});
  }

 private:
  bool Visit(Found found) { return ::lstat(found.path.c_str(), &found.info) != 0 || visit_(found); }

  // It is gone, or no directory any more, or may not be read.
  bool Unlisted(const std::string& path, const std::string& relative) {
    return Visit({.path = path,
                  .relative = relative.empty() ? "" : relative.substr(0, relative.size() - 1),
                  .change = Change::kNew,
                  .is_unreadable = true});
  }

  bool Entry(const std::string& path, const std::string& relative, const std::string& original,
             const std::string& name) {
    Found found{.path = path, .relative = relative, .original = original};
    if (::lstat(path.c_str(), &found.info) != 0) return true;
    if (S_ISDIR(found.info.st_mode))
      return IsCache(name, path) || Directory(path, relative + "/", original);
    found.change = ChangeOf(path, found.info, original, since_);
    return found.change == Change::kNone || visit_(found);
  }

  const Millis since_;
  size_t looks_left_;
  const std::function<bool(const Found&)> visit_;
};

// Why it cannot be kept; "": it can.
std::string WhyNot(const Found& found, const std::string& path) {
  if (absl::Status named = CheckRelativePath(path); !named.ok()) return MessageOf(named);
  if (S_ISLNK(found.info.st_mode)) {
    const absl::Status inside = CheckLinkTarget(path, LinkOf(found.path));
    return inside.ok() ? "" : MessageOf(inside);
  }
  if (found.is_unreadable) return "it cannot be read";
  if (S_ISDIR(found.info.st_mode)) return "";
  if (!S_ISREG(found.info.st_mode)) return "it is neither a file, a directory nor a link";
  return ::access(found.path.c_str(), R_OK) == 0 ? "" : "it cannot be read";
}

struct Candidate {
  Bytes bytes = 0;
  std::string path;
  bool is_directory = false;
};

// The smallest first: of many results and one file of raw data the results are wanted.
void Choose(std::vector<Candidate> candidates, const WrittenBounds& bounds, Written& written) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.path < b.path;
  });
  for (Candidate& one : candidates) {
    if (written.paths.size() >= bounds.files) {
      written.LeaveOut(one.path, one.bytes, "more than " + std::to_string(bounds.files) + " files");
    } else if (one.bytes > bounds.bytes - written.bytes) {
      written.LeaveOut(
          one.path, one.bytes,
          "beyond the " + BytesText(bounds.bytes) + " that are kept (rt-worker --keep-outputs)");
    } else {
      written.bytes += one.bytes;
      written.files += one.is_directory ? 0 : 1;
      written.paths.emplace(std::move(one.path), one.bytes);
    }
  }
}

}  // namespace

void Written::LeaveOut(const std::string& path, Bytes size, std::string reason) {
  left_out.push_back({ValidUtf8(EscapeControl(path)), size, std::move(reason)});
  left_out_bytes += size;
}

void Written::SortLeftOut() {
  std::sort(left_out.begin(), left_out.end(), [](const NotKept& a, const NotKept& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.path < b.path;
  });
}

bool MayHaveWritten(const std::string& directory, const Baseline& base) {
  Walk walk(base.since, kLooksMax, [](const Found&) { return false; });
  return !walk.Directory(directory, "", base.tree);
}

Written FindWritten(const std::string& root, const std::vector<WrittenPlace>& places,
                    const WrittenBounds& bounds, ReportedFiles* reported) {
  Written written;
  std::vector<Candidate> candidates;
  for (const WrittenPlace& place : places) {
    Walk walk(place.base.since, kEntriesMax, [&](const Found& found) {
      if (found.change == Change::kPerhaps &&
          HaveSameBytes(found.path, found.original, found.info.st_size))
        return true;
      const std::string path =
          found.relative.empty() ? place.path : place.path + "/" + found.relative;
      if (reported != nullptr && reported->Has(path, found.path, found.info)) return true;
      const Bytes bytes = S_ISREG(found.info.st_mode) ? Bytes{found.info.st_size} : 0;
      const std::string why = WhyNot(found, path);
      if (why.empty()) candidates.push_back({bytes, path, S_ISDIR(found.info.st_mode)});
      else written.LeaveOut(path, bytes, why);
      return true;
    });
    if (!walk.Directory(root + "/" + place.path, "", place.base.tree))
      written.LeaveOut(place.path, 0,
                       "the rest of more than " + std::to_string(kEntriesMax) + " files");
  }
  Choose(std::move(candidates), bounds, written);
  written.SortLeftOut();
  return written;
}

}  // namespace rt::worker
