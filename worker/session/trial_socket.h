// The Unix sockets on which trials and drivers speak to this daemon (docs/trial-protocol.md): one
// listener per attempt, JSON lines, one epoll thread for all. A connection is not read while its
// spool is full, its checkpoint is being taken or it does not read its answers: that is the
// back-pressure. A program may do its worst here: socket_limits.h bounds what one attempt can use.
// Public functions are thread-safe; the rest runs on the epoll thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/json.h"
#include "common/cas/blob_store.h"
#include "common/run/io_pool.h"
#include "worker/session/barriers.h"
#include "worker/session/checkpoint_pushes.h"
#include "worker/session/head_calls.h"
#include "worker/session/live_attempt.h"
#include "worker/session/refusal_log.h"

namespace rt::worker {

class TrialSocket {
 public:
  TrialSocket(HeadCalls& head, BlobStore& store, CheckpointPushes& pushes, IoPool& pool);
  ~TrialSocket();
  // Before Start. `tell` hears why no trial can connect (the daemon has no descriptor left), and ""
  // once they can again. The socket's thread.
  void OnFull(std::function<void(const std::string& why)> tell) { on_full_ = std::move(tell); }
  // Before Start. Reads the stacks of ranks that are missing at a barrier, here and on other nodes;
  // blocks, on the pool. Ranks whose stack cannot be had are left out.
  using ReadStacks = std::function<std::vector<RankStack>(const AttemptId& attempt,
                                                          const std::vector<RankArrival>& missing)>;
  void SetReadStacks(ReadStacks read) { read_stacks_ = std::move(read); }
  // Before Start. Opens a way to an executor on another node for a program of the run; `done` gets
  // the result of the operation, on any thread.
  using DialExecutor = std::function<void(const Fence& from, const Json& call,
                                          std::function<void(absl::StatusOr<Json>)> done)>;
  void SetDialExecutor(DialExecutor dial) { dial_executor_ = std::move(dial); }
  void Start();
  void Stop();

  absl::Status Listen(std::shared_ptr<LiveAttempt> attempt, const std::string& path);
  // Its processes are gone: reads what they left, then closes.
  void Finish(const Fence& fence);
  // Forgets the attempt, whatever is open.
  void Close(const Fence& fence);
  // What the head said of some attempt changed, a barrier was passed, or a spool has room again.
  void Wake();
  Barriers& barriers() { return barriers_; }

 private:
  struct Wait {
    uint64_t spool_seq = 0;
    uint64_t reply_seq = 0;
  };
  // A call of a driver, with the id that the driver knows it by.
  struct DriverAsk {
    Json id;
    std::string call;
    bool is_repeated = false;  // Its first answer was not kept.
  };
  struct Connection {
    uint64_t id = 0;
    int fd = -1;
    std::shared_ptr<LiveAttempt> attempt;
    std::string in;
    std::string out;
    bool greeted = false;
    size_t lines_before_hello = 0;
    bool busy = false;  // A checkpoint of it is being taken, or waits for that:
    std::function<void()> take;
    bool skipping = false;  // In the middle of a line that is too long.
    bool at_end = false;
    bool finishing = false;
    bool polled = false;
    bool stop_sent = false;
    bool suspend_sent = false;
    std::optional<Millis> evict_sent;  // By when.
    bool save_sent = false;
    uint32_t thaws_sent = 0;
    uint64_t ack = 0;                  // Of a row that is spooled and not yet acknowledged.
    uint64_t barrier = 0;              // That it waits to pass; 0: none.
    bool awaits_stacks = false;        // Of the ranks that are missing there.
    std::vector<Wait> waits;
    std::deque<DriverAsk> to_repeat;
    bool repeats = false;  // One of them is under way.
  };
  struct Listener {
    int fd = -1;
    std::string path;
    std::shared_ptr<LiveAttempt> attempt;
  };
  // A socket that listens under a name that nobody knows, to be used again: to make and remove one
  // per attempt is dear (run_dirs.h).
  struct Spare {
    int fd = -1;
    std::string path;
  };

  void Run();
  void Post(std::function<void()> task);
  void RunTasks();
  // At most kTrialAcceptsPerTurn; whether more may be waiting.
  bool Accept(uint64_t id);
  bool HasSpaceFor(const LiveAttempt& attempt) const;
  void NoteFull(int error);
  void LookForDescriptors();
  void CloseListener(const Fence& fence);
  absl::StatusOr<int> OpenListener(const std::string& path);
  void Recycle(const Listener& listener);
  static size_t LineBytesMax(const Connection& connection);
  static bool HasLine(const Connection& connection) {
    return connection.in.find('\n') != std::string::npos;
  }
  void Read(Connection& connection);
  // Handles some complete lines while it may; closes or polls on. The connection may be gone
  // afterwards.
  void Process(uint64_t id);
  // False: it had its lines and has not said hello.
  bool HandleLines(Connection& connection);
  void Visit();  // Every connection: verdicts, back-pressure.
  bool IsBlocked(const Connection& connection) const;
  void Poll(Connection& connection, bool wanted);
  void Flush(Connection& connection);
  void Drop(uint64_t id);
  void AnswerWaits(Connection& connection);
  void SendFreeze(Connection& connection, const Standing& standing);
  void SendEvict(Connection& connection, const Standing& standing);
  void AnswerAcks(Connection& connection);
  // Tells a rank that waits at a barrier when that is passed or never will be.
  void AnswerBarrier(Connection& connection);

  // trial_session.cc: one message.
  void HandleLine(Connection& connection, std::string_view line);
  void Dispatch(Connection& connection, const Json& message);
  void Hello(Connection& connection, const Json& message);
  void Report(Connection& connection, const Json& message);
  void Arrive(Connection& connection, const Json& message);
  void Profile(Connection& connection, const Json& message);
  void SayMissing(Connection& connection, const Json& message);
  void TakeCheckpoint(Connection& connection, const Json& message, const SpoolRow& row,
                      const Wait& wait);
  void TakeIfSpace(Connection& connection);
  void AnswerTaken(uint64_t id, const Wait& wait, bool wants_verdict,
                   const absl::StatusOr<uint64_t>& number);
  void TellLost(uint64_t id, uint64_t seq, const absl::Status& why);
  void Driver(Connection& connection, const Json& message);
  void Ask(const Connection& connection, DriverAsk ask);
  void TakeAnswer(uint64_t id, DriverAsk ask, Json reply, size_t bytes);
  void AskAgain(Connection& connection);
  void Dial(Connection& connection, const Json& id, const Json& call);
  void BlobPush(Connection& connection, const Json& id, const Json& call);
  void BlobPull(Connection& connection, const Json& id, const Json& call);
  void Send(Connection& connection, const Json& message);
  void SendLater(uint64_t id, Json message);
  void Refuse(Connection& connection, const absl::Status& why, uint64_t seq);

  HeadCalls& head_;
  BlobStore& store_;
  CheckpointPushes& pushes_;
  IoPool& pool_;
  Barriers barriers_;
  int epoll_ = -1;
  int wake_ = -1;
  std::thread thread_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::deque<std::function<void()>> tasks_;
  std::vector<Spare> spares_;
  uint64_t next_spare_ = 1;
  uint64_t next_id_ = 1;
  bool has_more_ = false;  // Some connection has lines that are left for the next turn.
  RefusalLog refused_connections_;
  std::function<void(const std::string&)> on_full_ = [](const std::string&) {};
  ReadStacks read_stacks_;
  DialExecutor dial_executor_;
  bool is_full_ = false;  // Of descriptors.
  std::map<uint64_t, Connection> connections_;
  std::map<uint64_t, Listener> listeners_;
};

}  // namespace rt::worker
