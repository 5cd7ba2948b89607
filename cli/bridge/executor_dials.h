// The way of a driver outside of the cluster to its executors (docs/adr/0041): the bridge opens a
// Unix socket for one connection and carries its bytes through the head (ExecutorService.Dial). The
// driver holds no certificate. Two threads for each open stream. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"
#include "common/rpc/task_stream.h"

namespace rt {

class ExecutorDials {
 public:
  explicit ExecutorDials(HeadClient& client);

  // {"executor", "session"}: {"socket": "@NAME"}, in the abstract namespace, so that a bridge that
  // is killed leaves nothing; a program of this user may connect once, within 10 s. The head and
  // the executor's node have said that they are connected, or why not.
  absl::StatusOr<Json> Dial(const Json& request);
  // Ends the open streams.
  void Finish() { streams_.Finish(); }

 private:
  struct Dialled;
  void Run(Dialled& dialled, TaskStreams::Stream& stream);

  HeadClient& client_;
  TaskStreams streams_;
};

}  // namespace rt
