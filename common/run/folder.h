// A directory that is open, and the files in it, reached by its descriptor and never by a path:
// whoever may write above it cannot send what we write elsewhere by swapping a part of the path for
// a symbolic link. Links are not followed, other files than regular ones are not opened. Not
// thread-safe: an object belongs to one thread at a time. Errors name the path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

class Folder {
 public:
  // Opens `root`, whose path is trusted and may contain links, and makes it when it is absent.
  static absl::StatusOr<Folder> OpenRoot(const std::string& root);
  // Opens the absolute `path` and makes what is missing. Links are followed up to the longest of
  // `roots` that contains it, or up to its parent when none does.
  static absl::StatusOr<Folder> OpenBelow(const std::vector<std::string>& roots,
                                          const std::string& path);
  Folder(Folder&& other) noexcept : fd_(other.fd_), path_(std::move(other.path_)) {
    other.fd_ = -1;
  }
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  // Makes the directory `name` in this one unless it is there, and opens it. PermissionDenied when
  // a link has that name.
  absl::StatusOr<Folder> Enter(const std::string& name) const;
  // Enter for every part of "a/b/c" in turn.
  absl::StatusOr<Folder> EnterAll(std::string_view relative_path) const;
  // Makes the directory. AlreadyExists when the name is taken.
  absl::Status Make(const std::string& name) const;
  // Cuts the file to `length` bytes, then appends `text`; `length` grows by it. DataLoss when the
  // file is shorter.
  absl::Status Append(const std::string& name, const std::string& text, uint64_t& length) const;
  // Replaces the file by rename, so that nobody sees half of it.
  absl::Status Replace(const std::string& name, const std::string& text) const;
  absl::Status Remove(const std::string& name) const;  // OK when it is absent.
  absl::Status SyncFileSystem() const;  // Everything written to the file system is durable.

  const std::string& path() const { return path_; }

 private:
  Folder(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  absl::Status Failed(int error, const char* what, const std::string& name) const;
  absl::StatusOr<int> OpenFile(const std::string& name, int flags) const;

  int fd_;
  std::string path_;  // For messages.
};

// Whether the absolute `path` is `root` or lies below it, by their text alone.
bool IsWithin(const std::string& path, const std::string& root);

}  // namespace rt
