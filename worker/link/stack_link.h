// The stacks of ranks that are missing at a barrier, from this node and from others
// (PeerService.Stacks): an attempt's ranks are named with them when one has waited too long.
// Blocks. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rt/v1/checkpoint.pb.h"
#include "worker/session/barriers.h"

namespace rt::worker {

class StackLink {
 public:
  using ReadHere = std::function<std::vector<RankStack>(const AttemptId& attempt,
                                                        const std::vector<uint32_t>& ranks)>;
  using FindPeer = std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(uint64_t node)>;
  StackLink(ReadHere read_here, FindPeer find_peer)
      : read_here_(std::move(read_here)), find_peer_(std::move(find_peer)) {}

  // Of at most limits::kStackRanksMax; a node that does not answer within seconds is left out.
  std::vector<RankStack> Read(const AttemptId& attempt, const std::vector<RankArrival>& missing);

 private:
  std::vector<RankStack> ReadThere(uint64_t node, const AttemptId& attempt,
                                   const std::vector<uint32_t>& ranks);

  const ReadHere read_here_;
  const FindPeer find_peer_;
};

// Of ranks that may be here; nullopt: it names no attempt.
std::optional<std::pair<AttemptId, std::vector<uint32_t>>> RanksFrom(
    const v1::StacksRequest& request);

}  // namespace rt::worker
