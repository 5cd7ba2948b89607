// The way of a driver outside of the cluster to its executors (docs/adr/0041): the bridge opens a
// Unix socket for one connection and carries its bytes through the head (ExecutorService.Dial). The
// driver holds no certificate. Two threads for each open stream. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"

namespace rt {

class ExecutorDials {
 public:
  explicit ExecutorDials(HeadClient& client) : client_(client) {}
  ~ExecutorDials();  // Finishes.

  // {"executor", "session"}: {"socket": "@NAME"}, in the abstract namespace, so that a bridge that
  // is killed leaves nothing; a program of this user may connect once, within 10 s. The head and
  // the executor's node have said that they are connected, or why not.
  absl::StatusOr<Json> Dial(const Json& request);
  // Ends the open streams.
  void Finish();

 private:
  struct Stream;
  void Carry(Stream& stream);
  void End(Stream* stream);
  bool is_finishing();
  // Finish ends this connection, too; -1: none. False: it has begun.
  bool Take(Stream& stream, int fd);

  HeadClient& client_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Stream*> streams_;
  bool finishing_ = false;
};

}  // namespace rt
