// A directory that is open, and the files in it, reached by its descriptor and never by a path:
// nobody who may write above it can redirect what we write by replacing a part of the path with a
// symbolic link. Links are not followed, and only regular files are opened. Not thread-safe: an
// object belongs to one thread at a time. Errors name the path.
#pragma once

#include <sys/types.h>

#include <compare>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

// The same directory has the same id wherever it is mounted.
struct FolderId {
  dev_t device = 0;
  ino_t inode = 0;
  auto operator<=>(const FolderId&) const = default;
};

class Folder {
 public:
  // Opens the absolute `path`, which is trusted: links in it are followed. With `make`, it and its
  // parents are made when they are absent; else NotFound.
  static absl::StatusOr<Folder> OpenTrusted(const std::string& path, bool make);
  Folder(Folder&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  // Makes the directory `name` in this one unless it is there, and opens it. PermissionDenied when
  // a link has that name.
  absl::StatusOr<Folder> Enter(const std::string& name) const;
  // Opens the directory `name`. NotFound when it is absent, PermissionDenied for a link.
  absl::StatusOr<Folder> Find(const std::string& name) const;
  // Makes the directory. AlreadyExists when the name is taken.
  absl::Status Make(const std::string& name) const;
  // Removes the directory `name` if it is empty.
  void RemoveEmpty(const std::string& name) const;
  // Cuts the file to `length` bytes, then appends `text`; `length` grows by it. DataLoss when the
  // file is shorter.
  absl::Status Append(const std::string& name, const std::string& text, uint64_t& length) const;
  // Replaces the file by rename, so that readers see the old content or the new.
  absl::Status Replace(const std::string& name, const std::string& text) const;
  absl::Status Remove(const std::string& name) const;  // OK when it is absent.
  absl::Status SyncFileSystem() const;  // Everything written to the file system is durable.

  absl::StatusOr<FolderId> GetId() const;
  int fd() const { return fd_; }  // O_PATH; ours.
  const std::string& path() const { return path_; }

 private:
  Folder(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  absl::Status Failed(int error, const char* what, const std::string& name) const;
  absl::StatusOr<int> OpenFile(const std::string& name, int flags) const;

  int fd_;
  std::string path_;  // For messages.
};

}  // namespace rt
