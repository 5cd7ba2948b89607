// One SendLog call: fills the relay that its pieces name; reads on only while the relay has room.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "head/service/log_hub.h"
#include "rt/v1/worker.pb.h"

namespace rt {

// `node`: who speaks, or why it may not.
grpc::ServerReadReactor<v1::LogPiece>* StartLogSender(LogHub& hub,
                                                      const absl::StatusOr<NodeId>& node);

}  // namespace rt
