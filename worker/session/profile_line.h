// The profile lines of an elastic attempt (docs/trial-protocol.md, "Profile"): what its rank 0 has
// measured goes to the head with the Syncs of this daemon until the head has recorded it. What
// comes meanwhile is merged and waits for its turn, so that each measurement counts once. A daemon
// that is restarted forgets what was not recorded. Thread-safe.
#pragma once

#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/elastic/profile.h"

namespace rt::worker {

// The object "elastic" of a line; InvalidArgument names what is wrong in it.
absl::StatusOr<ElasticProfile> ReadProfile(const Json& elastic);

struct PendingProfile {
  uint64_t seq = 0;  // Of the newest line in it.
  ElasticProfile profile;
};

class ProfileQueue {
 public:
  // Adds a line {"op":"profile","seq":n,"elastic":{…}}. InvalidArgument: the line is dropped, which
  // changes nothing.
  absl::Status AddLine(const Json& line);
  // Whether this is the first line of the attempt that is dropped.
  bool NoteDropped();
  // Lines that are repeated, or older than the newest, are ignored.
  void Add(uint64_t seq, const ElasticProfile& measured);
  // What the head is to be sent now; again and again, until it is recorded.
  std::optional<PendingProfile> Next();
  // The head has recorded what was measured up to this line.
  void NoteRecorded(uint64_t seq);

 private:
  std::mutex mutex_;
  uint64_t newest_ = 0;
  bool has_dropped_ = false;
  std::optional<PendingProfile> sent_;   // As it is: the head may have it already.
  std::optional<PendingProfile> fresh_;  // Measured since.
};

}  // namespace rt::worker
