// Where a reader of a log and the worker that holds it meet. A reader opens a relay: a LogRequest
// that the node's next SyncReply lists; the worker's SendLog stream with that id fills the relay,
// bounded, and the reader empties it. Thread-safe; callbacks run without locks held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace rt {

struct LogPiece {
  std::string data;
  uint64_t offset = 0;
  bool end = false;   // The process is gone and this was its last byte.
  std::string error;  // The worker could not read it.
};
struct LogQuery {
  Fence fence;
  std::string stream;
  uint64_t offset = 0;
  int64_t tail_lines = 0;
  bool follow = false;
  bool daemon = false;  // The worker's own log.
};

// One worker's stream on its way to one reader.
class LogRelay {
 public:
  // Sender. False: no room for more until `room` is called (once).
  bool Push(LogPiece piece, std::function<void()> space);
  void CloseSender();
  bool abandoned() const;
  // Reader. `ready` is called after every push and after the sender closed.
  void set_ready(std::function<void()> ready);
  std::optional<LogPiece> Pop();
  bool HasPieces() const;
  bool drained() const;  // The sender closed and everything was popped.
  void Abandon();        // The reader left: the sender may end.

 private:
  void Notify();
  mutable std::mutex mutex_;
  std::deque<LogPiece> pieces_;
  size_t bytes_ = 0;
  bool closed_ = false;
  bool abandoned_ = false;
  std::function<void()> ready_;
  std::function<void()> space_;
};

class LogHub {
 public:
  struct Open {
    uint64_t id = 0;
    LogQuery query;
  };
  // RESOURCE_EXHAUSTED is the null pointer.
  std::pair<uint64_t, std::shared_ptr<LogRelay>> Add(NodeId node, const LogQuery& query);
  void Remove(uint64_t id);
  // Requests of this node that no stream answers yet; they count as told from here on.
  std::vector<Open> OpenFor(NodeId node);
  bool HasUntold(NodeId node) const;
  // The relay for a stream of this node; null when nobody reads it (any more).
  std::shared_ptr<LogRelay> Attach(NodeId node, uint64_t id);

 private:
  struct Entry {
    NodeId node;
    LogQuery query;
    std::shared_ptr<LogRelay> relay;
    bool told = false;
    bool attached = false;
  };
  mutable std::mutex mutex_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Entry> entries_;
};

}  // namespace rt
