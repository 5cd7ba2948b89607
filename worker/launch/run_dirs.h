// The run directories of attempts, from hand to hand: <state>/attempts/<fence> while one is looked
// after, then its logs go to <state>/logs/<fence>, the newest thousand, and what is left is used
// again. To make and remove a handful of files per attempt is dear: ext4 passes over each inode
// that was freed within the last minutes, one by one, whenever it looks for a free one.
// Thread-safe.
#pragma once

#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "worker/launch/launch_body.h"

namespace rt::worker {

class RunDirs {
 public:
  // Finds what earlier daemons kept.
  explicit RunDirs(std::string state_dir);

  RunDir Of(const Fence& fence) const;
  // Makes the attempt's directory, with trial(); its other files are absent or an empty line, but
  // for config() and body(), which every launch writes before its shim is there.
  absl::Status Make(const Fence& fence);
  // The attempt is over and its files are nobody's any more: keeps the logs.
  absl::Status Retire(const Fence& fence);
  // Where its logs are now; "" when they are not kept, or it never ran here. An empty place for an
  // attempt that never printed anything: also one that an earlier daemon looked after, or that was
  // stopped before it was prepared.
  std::string LogsOf(const Fence& fence) const;

  // Writes one of the directory's files in place: nobody may be reading it.
  static absl::Status Write(const std::string& path, std::string_view text);

 private:
  std::string KeptOf(const Fence& fence) const;
  bool Unmake(const Fence& fence);  // Whether it had a directory.
  void Note(const Fence& fence, const std::string& kept, bool silent);
  std::string NewSpare();
  void RemoveOldLogs();
  void ReadSilent();
  void NoteSilent(const Fence& fence);  // With the lock.

  const std::string state_dir_;
  mutable std::mutex mutex_;
  std::deque<std::string> spares_;
  uint64_t next_spare_ = 1;
  std::deque<std::string> kept_;  // Directories of logs, oldest first.
  std::set<Fence> made_;          // What has a directory below attempts.
  // Ended without any output. <state>/silent has a line for each, so that the next daemon does not
  // take the absence of a log for a loss.
  std::set<Fence> silent_;
  std::deque<Fence> silent_order_;
  size_t silent_lines_ = 0;  // Of the file, which is written anew when most of them are too old.
};

}  // namespace rt::worker
