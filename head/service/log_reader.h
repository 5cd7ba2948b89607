// One ReadLog call: finds the attempt and its node, opens a relay there, writes what arrives, and
// with `follow` continues with newer attempts until the owner is terminal. Ends itself.
#pragma once

#include <grpcpp/grpcpp.h>

#include "head/service/services.h"
#include "rt/v1/job.pb.h"

namespace rt {

grpc::ServerWriteReactor<v1::LogChunk>* StartLogReader(Edge& edge,
                                                       const v1::ReadLogRequest& request);

}  // namespace rt
