// Byte streams between drivers and executors on different nodes (TaskService.Dial): the daemon of
// the driver's node opens a Unix socket for one connection, and carries its bytes to the socket of
// the executor through the daemon of that node, over mutual TLS between the ports for peers. The
// head says whether the driver may: programs hold no certificate. Two threads for each open stream
// at both ends. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/rpc/task_stream.h"
#include "common/run/io_pool.h"
#include "worker/session/head_calls.h"

namespace rt::worker {

class ExecutorRelay {
 public:
  using FindPeer = std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(uint64_t node)>;
  struct Place {
    uint64_t node = 0;        // This one.
    std::string runtime_dir;  // Where the sockets lie: nobody else enters it.
  };
  ExecutorRelay(HeadCalls& head, IoPool& pool, FindPeer find_peer, Place place);

  // {"id": N} of a program of the run `from`. `done` gets {"socket": PATH}, at which one
  // connection is taken within 10 s; NotFound: it has no such executor.
  void Dial(const Fence& from, const Json& call, std::function<void(absl::StatusOr<Json>)> done);
  // Ends the open streams.
  void Stop() { streams_.Finish(); }

 private:
  absl::StatusOr<Json> Open(const Json& route);

  HeadCalls& head_;
  IoPool& pool_;
  const FindPeer find_peer_;
  const Place place_;
  TaskStreams streams_;
};

// The other end: streams that daemons of other nodes, or the head, open to executors here. `admit`
// refuses other callers.
std::unique_ptr<grpc::Service> MakeTaskService(
    std::string state_dir, std::function<absl::Status(const grpc::ServerContext&)> admit);

}  // namespace rt::worker
