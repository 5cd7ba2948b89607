// The Sync calls that are held: who is newest, and what a closed connection means. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <mutex>

#include "head/service/services.h"
#include "rt/v1/worker.pb.h"

namespace rt {

class SyncCalls {
 public:
  explicit SyncCalls(Edge& edge) : edge_(edge) {}
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context,
                                  const v1::SyncRequest& request, v1::SyncReply* reply);

 private:
  class Call;
  struct Newest {
    uint64_t incarnation = 0;
    uint64_t sync_seq = 0;
    friend bool operator==(const Newest&, const Newest&) = default;
  };
  void Begin(NodeId node, Newest call);
  bool IsNewest(NodeId node, Newest call);

  Edge& edge_;
  std::mutex mutex_;
  std::map<NodeId, Newest> newest_;
};

}  // namespace rt
