// The Sync calls that are held, and what is said of one whose connection closes. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

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
  Edge& edge_;
};

}  // namespace rt
