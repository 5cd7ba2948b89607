// Whether a node that asks this one for bytes still belongs to the cluster. Its certificate does
// not say so, the head does, and its answer is used for a few seconds. Thread-safe; blocks
// meanwhile.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "common/base/time.h"

namespace rt::worker {

class PeerMembers {
 public:
  explicit PeerMembers(std::shared_ptr<grpc::Channel> head) : head_(std::move(head)) {}
  // PermissionDenied for a node that has left the cluster. OK for a member, and for everybody while
  // no head answers: no node can leave then, and pulls continue.
  absl::Status Check(uint64_t node);

 private:
  struct Answer {
    absl::Status status;
    Millis at = 0;
  };
  absl::Status Ask(uint64_t node) const;

  const std::shared_ptr<grpc::Channel> head_;
  std::mutex mutex_;
  std::map<uint64_t, Answer> answers_;  // By node.
};

}  // namespace rt::worker
