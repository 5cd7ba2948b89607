// Serves the trees on this node to the other workers of its cluster, chunks and manifests by their
// digests, and makes replicas here on their request, over mutual TLS with the cluster's CA, to
// certificates of the role worker only. The other nodes of an attempt whose rank 0 is here arrive
// at its barriers here. Bounded in streams and, if asked for, in bytes a second. A chunk of a tree
// that is still on its way here is waited for. gRPC's own threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/identity.h"
#include "worker/link/stack_link.h"
#include "worker/session/barriers.h"
#include "worker/trees/local_trees.h"

namespace rt::worker {

struct PeerServerOptions {
  std::string host;  // Where it listens.
  int port = 0;      // 0: any.
  Bytes bytes_per_second = 0;  // 0: no bound.
  size_t streams_max = limits::kPeerStreamsMax;
  struct ReplicaRequest {
    std::string manifest;
    Fence fence;
    uint64_t row = 0;   // That it was saved with; 0: unknown.
    uint64_t node = 0;  // The node that has it, and its address.
    std::string address;
  };
  // Fetches a tree from another node as a replica; blocks.
  using Replicate = std::function<absl::Status(const ReplicaRequest&)>;
  Replicate replicate;
  // Whether a node that asks may be served; blocks. If it is not set, every node may.
  std::function<absl::Status(uint64_t node)> check_member = {};
  Barriers* barriers = nullptr;  // Where ranks of other nodes arrive; null: nowhere.
  StackLink::ReadHere read_stacks = {};  // Of ranks here; blocks.
  std::string state_dir = {};            // Of executors here, which are dialled; empty: none are.
};

class PeerServer {
 public:
  static absl::StatusOr<std::unique_ptr<PeerServer>> Start(const PeerServerOptions& options,
                                                           const Credentials& credentials,
                                                           LocalTrees& trees);
  ~PeerServer();  // Ends what is under way.
  std::string address() const;  // host:port
  Bytes served() const;         // Bytes of chunks.
  std::string fault() const;    // As PortListener::fault.

 private:
  struct Impl;
  explicit PeerServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rt::worker
