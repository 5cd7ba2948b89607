// Where the ranks of an attempt meet (train.report; docs/trial-protocol.md, "The barrier"). A rank
// arrives at its n-th barrier. A barrier is passed once every rank has arrived at it or at a later
// one. The daemon of rank 0's node decides that; the daemons of the other nodes tell it how far
// their ranks are, and learn from it what is passed.
//
// Numbers only grow, and every arrival can be repeated. Nothing is written to disk: after a restart
// of a daemon its ranks say again where they wait, and the other daemons ask again. Thread-safe;
// callbacks are called without the lock.
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
#include "worker/launch/launch_body.h"

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
  struct Events {
    std::function<void()> on_question = [] {};
    std::function<void()> on_passed = [] {};
  };
  // Before ranks arrive.
  void SetEvents(Events events) { events_ = std::move(events); }

  // Of ranks on this node. NoteHello: its program has connected; it may never arrive.
  void NoteHello(const LaunchBody& body);
  void Arrive(const LaunchBody& body, uint64_t number);
  void NoteEnd(const Fence& fence, Millis now);
  BarrierState StateOf(const AttemptId& attempt, uint64_t number, Millis now) const;

  // On rank 0's node: answers once the barrier of the question is passed, a missing rank has ended,
  // or limits::kBarrierHold is over.
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
    std::map<uint32_t, Rank> ranks;
    std::vector<Held> held;
    Millis used_at = 0;
    // Where rank 0 is elsewhere:
    BarrierState learnt;
    uint64_t asked = 0;  // The number of the newest question.
    bool is_asking = false;
    bool has_news = false;  // A rank has arrived or ended since.
    Millis news_at = 0;
    Millis ask_after = 0;
  };
  using Replies = std::vector<std::function<void()>>;

  Group& GroupOf(const LaunchBody& body, Millis now);
  static bool RunsHere(const Group& group);
  static uint64_t PassedIn(const Group& group);
  static uint64_t PassedHere(const Group& group);
  static BarrierState StateIn(const Group& group, uint64_t number, Millis now);
  static void Settle(Group& group, Millis now, Replies& replies);

  Events events_;
  mutable std::mutex mutex_;
  std::map<AttemptId, Group> groups_;
};

}  // namespace rt::worker
