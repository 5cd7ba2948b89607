// Copying a log as it grows, from the head to a descriptor, resuming by attempt and offset where a
// connection broke: nothing is written twice and nothing is left out.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "cli/client/head_client.h"
#include "common/base/ids.h"

namespace rt {

struct FollowOptions {
  Owner owner;
  NodeId node;         // Not 0: the log of its daemon instead.
  uint32_t attempt = 0;  // Only this one; 0: the newest, and while following those after it.
  uint32_t rank = 0;   // Of a trial with several.
  std::string stream;  // stdout or stderr
  bool follow = true;
  int64_t tail_lines = 0;
  int fd = 1;
};
// Ends when the owner is terminal and everything was written, or with an error after 60 s without
// any progress. `finished` turns true when the caller knows that the owner is terminal: from then
// on no more than a few tries are made.
absl::Status FollowLog(HeadClient& client, const FollowOptions& options,
                       const std::atomic<bool>& finished);

}  // namespace rt
