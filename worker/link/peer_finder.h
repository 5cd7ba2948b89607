// Other workers as sources of trees: asks the head which ones have a tree, fetches from them, and
// announces to the head what this node has, at every change (a little later) and every 30 s. Owns
// one thread. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "common/rpc/identity.h"
#include "rt/v1/checkpoint.pb.h"
#include "rt/v1/worker.grpc.pb.h"
#include "worker/session/peer_replicas.h"
#include "worker/trees/tree_fetcher.h"

namespace rt::worker {

class PeerFinder : public PeerSources, public PeerReplicas {
 public:
  PeerFinder(std::shared_ptr<grpc::Channel> head, Credentials credentials, std::string cluster_id);
  ~PeerFinder() override;
  // `address`: where this node serves.
  // A head of another epoch gets an announcement at once: it may be a new one.
  void Start(LocalTrees& trees, std::string address, std::function<uint64_t()> head_epoch);
  void Stop();
  void Changed();  // What this node has is not what it said.

  std::unique_ptr<BlobSource> Find(const std::string& manifest) override;
  absl::StatusOr<ReplicaSource> FindReplicas(const std::string& manifest,
                                             const Fence& fence) override;
  // The port for peers of that node. NotFound: it has none, or the head does not know it yet.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(uint64_t node) const;
  // That node alone.
  std::unique_ptr<BlobSource> At(const std::string& manifest, uint64_t node,
                                 const std::string& address);
  absl::StatusOr<uint64_t> Replicate(const std::string& manifest, const Fence& fence,
                                     uint64_t row) override;

 private:
  class Peers;
  std::shared_ptr<grpc::Channel> ChannelTo(const v1::Source& peer) const;
  void Failed(uint64_t node);
  absl::StatusOr<v1::FindSourcesReply> Ask(v1::FindSourcesRequest request);
  absl::StatusOr<v1::Source> FindHolder();
  absl::Status RequestReplica(const v1::Source& holder, const v1::HoldTreeRequest& request) const;
  void Run();
  void Say(const std::set<uint64_t>& failed);

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  const Credentials credentials_;
  const std::string cluster_id_;
  LocalTrees* trees_ = nullptr;
  std::string address_;
  std::function<uint64_t()> head_epoch_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool stopping_ = false;
  bool changed_ = true;
  std::set<uint64_t> failed_;  // Not said yet.
  v1::Source last_holder_;     // The last that made a replica; node 0: none.
};

}  // namespace rt::worker
