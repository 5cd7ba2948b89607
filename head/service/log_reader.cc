#include "head/service/log_reader.h"

#include <algorithm>

#include "common/base/status.h"
#include "head/core/owner_policy.h"
#include "head/service/fetched_logs.h"
#include "head/service/translate.h"

namespace rt {
namespace {

// A stream that broke is asked for again; without progress only this often, 200 ms apart.
constexpr int kRetriesMax = 50;
constexpr Millis kRetryDelay = 200;
constexpr Millis kWatchHold = 5'000;
constexpr size_t kPieceBytes = 256u << 10;

struct Target {
  bool found = false;
  bool terminal = false;  // The owner.
  AttemptId attempt;
  NodeId node;
  std::string node_name;
  bool node_lost = false;
};

bool IsAway(const Core& core, NodeId id) {
  auto node = core.world.state.nodes.find(id);
  return node == core.world.state.nodes.end() || !node->second.counts();
}

// A generation of an attempt; each has a log of its own.
struct Place {
  uint32_t attempt = 0;
  uint32_t generation = 0;  // 0: before the first; of an attempt that is asked for, any.
  friend auto operator<=>(const Place&, const Place&) = default;
};

Place PlaceOf(const AttemptId& id) { return {id.number, id.generation}; }

bool Is(const Attempt& attempt, const Place& asked) {
  return attempt.number == asked.attempt &&
         (asked.generation == 0 || attempt.generation == asked.generation);
}

// Of all sizes that it had.
uint32_t MostRanks(const Core& core, const Owner& owner, const Runs& runs) {
  uint32_t ranks = RequestOf(core.world, owner).ranks;
  for (const Attempt& attempt : runs.attempts)
    if (runs.ranks != 0) ranks = std::max(ranks, RanksOf(core.world, owner, attempt));
  return ranks;
}

// A rank other than 0 is not on its node before all ranks know where to meet: there is no output
// yet.
bool IsAwaited(const Attempt& attempt, uint32_t rank) {
  return attempt.members.empty() || (rank > 0 && attempt.port == 0 && attempt.ended_at == 0);
}

// Attempt `exact`; or, when there is none, the newest one or (`in_order`) the next from `at_least`
// on.
absl::StatusOr<Target> FindTarget(const Core& core, const Owner& owner, uint32_t rank,
                                  const Place& exact, const Place& at_least, bool in_order) {
  const Runs* runs = FindRuns(core.world.state, owner);
  if (runs == nullptr) return NotFound("there is no " + Describe(owner));
  const uint32_t ranks = MostRanks(core, owner, *runs);
  if (rank >= ranks)
    return NotFound(
        Describe(owner) + " has no rank " + std::to_string(rank),
        ranks == 1 ? "its only rank is 0" : "its ranks are 0 to " + std::to_string(ranks - 1));
  Target target;
  target.terminal = IsOver(core.world.state, owner);
  for (const Attempt& attempt : runs->attempts) {
    const Place place{attempt.number, attempt.generation};
    const bool wanted = exact.attempt != 0 ? Is(attempt, exact) : place >= at_least;
    if (!wanted || rank >= attempt.members.size() || IsAwaited(attempt, rank)) continue;
    target.found = true;
    target.attempt = {owner, attempt.number, attempt.generation};
    target.node = attempt.members.at(rank).node;
    target.node_lost = IsAway(core, target.node);
    if (auto node = core.world.state.nodes.find(target.node); node != core.world.state.nodes.end())
      target.node_name = node->second.name;
    if (in_order) break;  // Following: no attempt is skipped.
  }
  if (exact.attempt != 0 && !target.found)
    return NotFound(Describe(owner) + " has no attempt " + std::to_string(exact.attempt));
  return target;
}

// The daemon of a node has one log; it counts as the first attempt of nobody.
absl::StatusOr<Target> FindDaemon(const Core& core, NodeId id) {
  auto node = core.world.state.nodes.find(id);
  if (node == core.world.state.nodes.end() || node->second.gone)
    return NotFound("there is no node " + std::to_string(id.value));
  if (node->second.lost)
    return absl::FailedPreconditionError("node '" + node->second.name + "' is lost");
  return Target{.found = true, .attempt = {{}, 1, 1}, .node = id, .node_name = node->second.name};
}

// Where the last `lines` lines begin.
size_t StartOfTail(std::string_view text, int64_t lines) {
  size_t at = text.ends_with('\n') ? text.size() - 1 : text.size();
  for (; lines > 0 && at != 0; --lines) {
    const size_t found = text.rfind('\n', at - 1);
    if (found == text.npos) return 0;
    at = found;
  }
  return at == 0 ? 0 : at + 1;
}

class LogReader final : public grpc::ServerWriteReactor<v1::LogChunk>,
                        public std::enable_shared_from_this<LogReader> {
 public:
  LogReader(Edge& edge, Owner owner, const v1::ReadLogRequest& request)
      : edge_(edge), owner_(owner), node_{request.node()}, rank_(request.rank()),
        exact_(node_.value == 0 && !request.with_later()
                   ? Place{request.attempt(), request.generation()}
                   : Place{}),
        stream_(request.stream()), follow_(request.follow()), offset_(request.offset()),
        tail_lines_(request.tail_lines()) {
    if (!request.with_later() || request.attempt() == 0) return;
    at_least_ = {request.attempt(), request.generation()};
    in_order_ = true;
  }

  void Start() {
    self_ = shared_from_this();
    Seek(0);
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
    }
    if (!ok) return End(absl::CancelledError("the reader left"));
    Pump();
  }
  void OnCancel() override { End(absl::CancelledError("the reader left")); }
  void OnDone() override { self_.reset(); }

 private:
  // Finds the next attempt, waiting for one while following; at the earliest after `delay`.
  void Seek(Millis delay) {
    auto target = std::make_shared<Target>();
    auto check = [self = shared_from_this(), target, delay](
                     const Core& core, const HeadFacts&,
                     bool last) -> std::optional<absl::StatusOr<Json>> {
      if (delay > 0 && !last) return std::nullopt;
      auto found = self->node_.value != 0
                       ? FindDaemon(core, self->node_)
                       : FindTarget(core, self->owner_, self->rank_, self->exact_,
                                    self->at_least_, self->in_order_);
      if (!found.ok()) return absl::StatusOr<Json>(found.status());
      *target = *found;
      bool settled = found->found || found->terminal || !self->follow_ || last;
      return settled ? std::optional<absl::StatusOr<Json>>(Json()) : std::nullopt;
    };
    edge_.waits.Add(WaitRole::kLog, std::move(check), delay > 0 ? delay : kWatchHold * 6,
                    [self = shared_from_this(), target](absl::StatusOr<Json> answer) {
                      if (!answer.ok()) return self->End(answer.status());
                      self->OnTarget(*target);
                    });
  }

  void OnTarget(const Target& target) {
    if (!target.found) {
      if (target.terminal || !follow_) return End(final_);
      return Seek(0);
    }
    if (target.node_lost) return OnNodeLost(target);
    std::shared_ptr<LogRelay> relay;
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      Choose(target.attempt);
      LogQuery query{{attempt_, rank_}, stream_, offset_, tail_lines_, follow_, node_.value != 0};
      std::tie(relay_id_, relay_) = edge_.logs.Add(target.node, query);
      relay = relay_;
    }
    if (relay == nullptr) return End(absl::ResourceExhaustedError("too many logs are being read"));
    std::weak_ptr<LogReader> weak = weak_from_this();
    relay->set_ready([weak] {
      if (auto self = weak.lock()) self->Pump();
    });
    edge_.loop.Wake(target.node);
    Watch(target, relay);
    Pump();
  }

  // With the lock.
  void Choose(const AttemptId& attempt) {
    // Of an attempt that is not there any more nothing was read: it resumes in a later one.
    const Place asked{at_least_.attempt, std::max(1u, at_least_.generation)};
    const bool is_later = in_order_ && PlaceOf(attempt) > asked;
    if (attempt != attempt_ && (attempt_.number != 0 || is_later)) {
      offset_ = 0;
      tail_lines_ = 0;
      final_ = absl::OkStatus();  // What was lost with an older attempt's node is not the end.
    }
    attempt_ = attempt;
    in_order_ = true;
  }

  // Ends the relay when its node is lost: nobody will fill it.
  void Watch(const Target& target, std::weak_ptr<LogRelay> relay) {
    auto lost = std::make_shared<bool>(false);
    auto check = [node = target.node, lost](const Core& core, const HeadFacts&,
                                            bool last) -> std::optional<absl::StatusOr<Json>> {
      *lost = IsAway(core, node);
      return *lost || last ? std::optional<absl::StatusOr<Json>>(Json()) : std::nullopt;
    };
    edge_.waits.Add(WaitRole::kLog, std::move(check), kWatchHold,
                    [weak = weak_from_this(), target, relay, lost](absl::StatusOr<Json> answer) {
                      auto self = weak.lock();
                      auto current = relay.lock();
                      if (!self || !current || !answer.ok()) return;
                      {
                        std::lock_guard lock(self->mutex_);
                        if (self->ended_ || self->relay_ != current) return;
                      }
                      if (*lost) current->CloseSender();
                      else self->Watch(target, relay);
                    });
  }

  // The head may have fetched its logs before the node went.
  void OnNodeLost(const Target& target) {
    const FetchedLogs* fetched = edge_.settings.fetched_logs();
    if (fetched == nullptr || node_.value != 0) return SayLost(target);
    edge_.io([self = shared_from_this(), fetched, target] {
      auto log = fetched->Find({target.attempt, self->rank_}, self->stream_);
      if (log.has_value()) self->OnFetched(target, *std::move(log));
      else self->SayLost(target);
    });
  }

  void OnFetched(const Target& target, const FetchedLog& log) {
    const auto relay = std::make_shared<LogRelay>();
    size_t at = 0;
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      Choose(target.attempt);
      if (offset_ > log.offset) at = std::min<size_t>(offset_ - log.offset, log.bytes.size());
      if (tail_lines_ > 0) at = std::max(at, StartOfTail(log.bytes, tail_lines_));
      relay_ = relay;
      relay_id_ = 0;
    }
    for (; at < log.bytes.size(); at += kPieceBytes)
      relay->Push({log.bytes.substr(at, kPieceBytes), log.offset + at, false, ""}, [] {});
    relay->Push({"", log.offset + log.bytes.size(), true, ""}, [] {});
    relay->CloseSender();
    Pump();
  }

  void SayLost(const Target& target) {
    uint64_t from;
    {
      std::lock_guard lock(mutex_);
      from = target.attempt == attempt_ ? offset_ : 0;
    }
    final_ = absl::DataLossError("the output of " + Describe(owner_) + ", attempt " +
                                 std::to_string(target.attempt.number) + ", after byte " +
                                 std::to_string(from) + " is on node '" + target.node_name +
                                 "', which is lost");
    NextAttempt(target.attempt);
  }

  void NextAttempt(const AttemptId& after) {
    if (!follow_ || exact_.attempt != 0 || node_.value != 0) return End(final_);
    {
      std::lock_guard lock(mutex_);
      offset_ = 0;  // It was of the attempt before, also where nothing of that could be read.
      tail_lines_ = 0;
    }
    at_least_ = {after.number, after.generation + 1};
    in_order_ = true;
    Seek(0);
  }

  // Writes the next piece, if there is one and none is being written.
  void Pump() {
    std::shared_ptr<LogRelay> relay;
    {
      std::lock_guard lock(mutex_);
      if (writing_ || ended_ || relay_ == nullptr) return;
      relay = relay_;
      writing_ = true;  // Reserves the turn while the relay is asked without our lock.
    }
    if (attempt_over_) {
      attempt_over_ = false;
      CloseRelay();
      return NextAttempt(attempt_);
    }
    std::optional<LogPiece> piece = relay->Pop();
    if (piece) return Write(std::move(*piece));
    bool broken = relay->drained();
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
    }
    if (broken) return OnBroken(relay);
    // A piece that arrived while the turn was taken announced itself in vain.
    if (relay->HasPieces() || relay->drained()) Pump();
  }

  void Write(LogPiece piece) {
    bool over = piece.end || !piece.error.empty();
    // Of a trial or job that is followed, a later attempt may have a log. A daemon has one log.
    const bool may_follow = follow_ && node_.value == 0;
    if (!piece.error.empty()) final_ = may_follow ? absl::OkStatus() : NotFound(piece.error);
    std::lock_guard lock(mutex_);
    if (ended_) return;
    retries_ = 0;
    tail_lines_ = 0;
    offset_ = piece.offset + piece.data.size();
    attempt_over_ = over;
    chunk_.Clear();
    chunk_.set_offset(piece.offset);
    chunk_.set_data(std::move(piece.data));
    chunk_.set_attempt(attempt_.number);
    chunk_.set_generation(attempt_.generation);
    chunk_.set_end(over);
    StartWrite(&chunk_);
  }

  // The stream closed without an end: all there is for a plain read, a fault while following.
  void OnBroken(const std::shared_ptr<LogRelay>& relay) {
    {
      std::lock_guard lock(mutex_);
      if (ended_ || relay_ != relay) return;
      ++retries_;
    }
    CloseRelay();
    if (!follow_) return End(absl::OkStatus());
    if (retries_ > kRetriesMax) return End(absl::UnavailableError("the log cannot be read"));
    at_least_ = PlaceOf(attempt_);
    Seek(kRetryDelay);
  }

  void CloseRelay() {
    std::shared_ptr<LogRelay> relay;
    {
      std::lock_guard lock(mutex_);
      relay = std::move(relay_);
      relay_ = nullptr;
      writing_ = false;
      edge_.logs.Remove(relay_id_);
    }
    if (relay) relay->Abandon();
  }

  void End(absl::Status status) {
    std::shared_ptr<LogRelay> relay;
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
      relay = std::move(relay_);
      relay_ = nullptr;
      edge_.logs.Remove(relay_id_);
      Finish(ToGrpc(status));
    }
    if (relay) relay->Abandon();
  }

  Edge& edge_;
  const Owner owner_;
  const NodeId node_;  // Not 0: the log of its daemon.
  const uint32_t rank_;
  const Place exact_;  // Attempt 0: none.
  const std::string stream_;
  const bool follow_;
  std::shared_ptr<LogReader> self_;  // Until OnDone.

  std::mutex mutex_;
  uint64_t offset_;
  int64_t tail_lines_;
  AttemptId attempt_;
  Place at_least_{1, 0};
  bool in_order_ = false;  // An attempt was chosen: go on from `at_least_`.
  uint64_t relay_id_ = 0;
  std::shared_ptr<LogRelay> relay_;
  v1::LogChunk chunk_;
  bool writing_ = false;
  bool ended_ = false;
  bool attempt_over_ = false;
  int retries_ = 0;
  absl::Status final_;  // How the call ends when no attempt follows.
};

// A call that was refused before it began.
class Refused final : public grpc::ServerWriteReactor<v1::LogChunk> {
 public:
  explicit Refused(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<v1::LogChunk>* StartLogReader(Edge& edge,
                                                       const v1::ReadLogRequest& request) {
  bool daemon = request.node() != 0;
  absl::StatusOr<Owner> owner = daemon ? Owner{} : FromWire(request.owner());
  absl::Status status = owner.status();
  if (status.ok() && !daemon && request.stream() != "stdout" && request.stream() != "stderr")
    status = Invalid("stream is 'stdout' or 'stderr', not '" + request.stream() + "'");
  if (!status.ok()) return new Refused(status);
  auto reader = std::make_shared<LogReader>(edge, *owner, request);
  reader->Start();
  return reader.get();
}

}  // namespace rt
