// Where the ranks of an attempt meet (train.report; docs/trial-protocol.md, "The barrier"). A rank
// arrives at its n-th barrier. A barrier is passed once every rank has arrived at it or at a later
// one. The daemon of rank 0's node decides that; the daemons of the other nodes tell it how far
// their ranks are, and learn from it what is passed.
//
// Numbers only grow, and every arrival can be repeated. After a restart of a daemon its ranks say
// again where they wait, and the other daemons ask again. A rank that has passed a barrier says
// nothing until it comes to the next one, and may have ended: so the daemon of rank 0's node keeps
// the number that is passed before anyone is told. Thread-safe; callbacks are called without the
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/launch_spec.h"

namespace rt::worker {

// How far a rank is.
struct RankArrival {
  uint32_t rank = 0;
  uint64_t number = 0;     // Of its newest barrier; 0: none.
  bool has_ended = false;  // Its program; it arrives nowhere any more.
  uint64_t node = 0;       // 0: this one, or an unknown one.
  bool is_here = false;    // It is known to run on this node.
  friend bool operator==(const RankArrival&, const RankArrival&) = default;
};
// Where the program of a rank is, as Python's faulthandler writes it.
struct RankStack {
  uint32_t rank = 0;
  std::string text;
};
// How a barrier stands.
struct BarrierState {
  uint64_t passed = 0;               // The newest barrier that is passed.
  std::vector<RankArrival> missing;  // At the one that was asked about.
  // The missing ranks whose programs ended a while ago. The attempt of a rank that failed is ended
  // by the head before.
  std::vector<uint32_t> ended;
};
// What a daemon asks that of rank 0's node.
struct BarrierQuestion {
  AttemptId attempt;
  uint64_t node = 0;  // Rank 0's.
  uint32_t world_size = 0;
  uint64_t number = 0;             // The newest that all of its ranks have arrived at.
  std::vector<RankArrival> ranks;  // Of its own.
};

// What a rank that waits is told: docs/trial-protocol.md, "The barrier". `stacks`: of missing
// ranks.
Json BarrierMessage(const char* op, uint64_t number, const BarrierState& state,
                    const std::vector<RankStack>& stacks = {});

class Barriers {
 public:
  // `on_question`: this node may have something to ask. `on_passed`: a barrier of a local rank.
  // `keep`: the number for the daemon after this one; `kept`: what the one before kept, 0: nothing.
  struct Events {
    std::function<void()> on_question = [] {};
    std::function<void()> on_passed = [] {};
    std::function<void(const AttemptId&, uint64_t passed)> keep = [](const AttemptId&, uint64_t) {};
    std::function<uint64_t(const AttemptId&)> kept = [](const AttemptId&) { return 0; };
  };
  // Before ranks arrive.
  void SetEvents(Events events) { events_ = std::move(events); }

  // Of ranks on this node. NoteHello: its program has connected; it may never arrive.
  void NoteHello(const LaunchSpec& launch, Millis now);
  void Arrive(const LaunchSpec& launch, uint64_t number, Millis now);
  void NoteEnd(const Fence& fence, Millis now);
  BarrierState StateOf(const AttemptId& attempt, uint64_t number, Millis now) const;

  // On rank 0's node: answers once the barrier of the question is passed, a missing rank has ended,
  // or limits::kBarrierHold is over. A node is believed about its own ranks only, which the ranks
  // here know from the head (LaunchSpec::rank_nodes); a node that has none is answered at once with
  // nothing. Until a rank has arrived here no barrier is passed and no rank counts as ended.
  void Answer(const BarrierQuestion& question, uint64_t asking_node, Millis now,
              std::function<void(const BarrierState&)> reply);
  // Answers what is held for too long, and forgets groups that are not used.
  void Tick(Millis now);

  // On other nodes: what to ask now. A question is asked again only after TakeAnswer.
  std::vector<BarrierQuestion> TakeQuestions(Millis now);
  // nullopt: there was none; it is asked again a little later.
  void TakeAnswer(const AttemptId& attempt, const std::optional<BarrierState>& state, Millis now);

 private:
  struct Rank {
    uint64_t number = 0;
    Millis ended_at = 0;
    uint64_t node = 0;
  };
  struct Held {
    uint64_t number = 0;
    Millis until = 0;
    std::function<void(const BarrierState&)> reply;
  };
  struct Group {
    uint32_t world_size = 0;
    uint32_t ranks_here = 0;  // As the head placed them; 0: only other nodes have asked so far.
    bool leads = true;        // Rank 0 is here.
    uint64_t leader = 0;      // Its node.
    // Where rank 0 is here: the node of each rank. Empty: not known, as from earlier releases.
    std::vector<NodeId> rank_nodes;
    std::map<uint32_t, Rank> ranks;
    std::vector<Held> held;
    Millis used_at = 0;
    uint64_t passed = 0;  // Where rank 0 is here: the number that is kept.
    // Where rank 0 is elsewhere:
    BarrierState learnt;
    uint64_t asked = 0;  // The number of the newest question.
    bool is_asking = false;
    bool has_news = false;  // A rank has arrived or ended since.
    Millis news_at = 0;
    Millis ask_after = 0;
  };
  using Replies = std::vector<std::function<void()>>;

  Group& GroupOf(const LaunchSpec& launch, Millis now);
  static bool RunsHere(const Group& group);
  static bool MayAsk(const Group& group, uint64_t node);
  static bool SpeaksFor(const Group& group, uint64_t node, uint32_t rank);
  static void TakeRanks(Group& group, const BarrierQuestion& question, uint64_t node, Millis now);
  static void DropForeign(Group& group);
  static uint64_t PassedIn(const Group& group);
  static uint64_t LeastIn(const Group& group);
  static uint64_t PassedHere(const Group& group);
  static BarrierState StateIn(const Group& group, uint64_t number, Millis now);
  static void Settle(Group& group, Millis now, Replies& replies);
  uint64_t KeptOfUnknown(const AttemptId& attempt) const;
  bool Advance(const AttemptId& attempt, Millis now);

  Events events_;
  mutable std::mutex mutex_;
  std::map<AttemptId, Group> groups_;
};

}  // namespace rt::worker
