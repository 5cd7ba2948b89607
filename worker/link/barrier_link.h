// Tells the nodes of rank 0 how far the ranks on this node are, and tells this node's ranks what is
// passed: PeerService.Arrive, one call at a time for each attempt. Owns one thread, and waits for
// answers on gRPC's. A node that does not answer is looked up again, and asked again.
#pragma once

#include <grpcpp/channel.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "absl/status/statusor.h"
#include "rt/v1/checkpoint.pb.h"
#include "worker/session/barriers.h"

namespace rt::worker {

class BarrierLink {
 public:
  // Finds a node's port for peers; may block.
  using FindPeer = std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(uint64_t node)>;
  BarrierLink(Barriers& barriers, FindPeer find_peer);
  ~BarrierLink();
  void Start();
  // Ends the calls that are under way.
  void Stop();
  void Wake();  // There may be something to ask.

 private:
  struct Call;
  void Run();
  void Ask(const BarrierQuestion& question);
  void Done(Call* call, bool ok);
  std::shared_ptr<grpc::Channel> PeerOf(uint64_t node);
  // Says it once, until the node answers.
  void NoteSilent(uint64_t node, const std::string& why);

  Barriers& barriers_;
  const FindPeer find_peer_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool woken_ = false;
  std::set<Call*> calls_;
  std::map<uint64_t, std::shared_ptr<grpc::Channel>> peers_;  // By node.
  std::set<uint64_t> silent_;  // Nodes of which it was said that they do not answer.
};

// nullopt: it is not about an attempt with several ranks.
std::optional<BarrierQuestion> QuestionFrom(const v1::ArriveRequest& request);
void ToWire(const BarrierState& state, v1::ArriveReply& reply);

}  // namespace rt::worker
