// Logs of attempts whose machines are gone, on the head's disk. <directory>/<fence> has a file
// <stream>.<offset> with the end of each, from that byte on. The oldest go when there are too many
// bytes. Thread-safe; blocks on the disk.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt {

struct FetchedLog {
  uint64_t offset = 0;  // Of the first byte; what came before it is gone.
  std::string bytes;
};

class FetchedLogs {
 public:
  // Finds what an earlier head has fetched.
  explicit FetchedLogs(std::string directory);
  // Whether they were kept, or could not be kept: they need not be fetched again.
  bool IsDone(const Fence& fence) const;
  // By stream. An error leaves nothing of them.
  absl::Status Keep(const Fence& fence, const std::map<std::string, FetchedLog>& streams);
  // Empty for a stream without a byte; nothing when the attempt's logs were not fetched.
  std::optional<FetchedLog> Find(const Fence& fence, const std::string& stream) const;

 private:
  std::string PlaceOf(const Fence& fence) const;
  absl::Status Write(const Fence& fence, const std::map<std::string, FetchedLog>& streams);
  void RemoveOldest();

  const std::string directory_;
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, Bytes>> kept_;  // Directories, the oldest first.
  Bytes bytes_ = 0;
  // By the disk, since this head began; the first ones are forgotten, and may be asked for again.
  std::set<Fence> refused_;
};

}  // namespace rt
