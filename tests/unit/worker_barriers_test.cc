// The barrier of ranks: who has arrived, on one node and on several; lost and repeated answers.
#include <catch2/catch.hpp>

#include "common/run/clock.h"
#include "worker/session/barriers.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

const AttemptId kAttempt{Owner::Of(TrialId{{1}, 0}), 1, 1};

LaunchBody BodyOf(uint32_t rank, uint32_t world_size, uint32_t local_size, uint32_t group) {
  LaunchBody body;
  body.fence = {kAttempt, rank};
  body.world_size = world_size;
  body.rank0_node = 7;
  body.env = {{"LOCAL_WORLD_SIZE", std::to_string(local_size)},
              {"GROUP_RANK", std::to_string(group)}};
  return body;
}

// Rank 0's node (number 7) and another one (8), which ask each other by hand.
struct TwoNodes {
  Barriers leader, follower;
  std::vector<BarrierState> answers;

  // What the other node asks now reaches rank 0's.
  size_t Ask(Millis now) {
    const std::vector<BarrierQuestion> questions = follower.TakeQuestions(now);
    for (const BarrierQuestion& question : questions)
      leader.Answer(question, 8, now, [&](const BarrierState& is) { answers.push_back(is); });
    return questions.size();
  }
  // The oldest answer reaches the other node.
  void Learn(Millis now) {
    REQUIRE_FALSE(answers.empty());
    follower.TakeAnswer(kAttempt, answers.front(), now);
    answers.erase(answers.begin());
  }
};

}  // namespace

TEST_CASE("a barrier is passed once every rank of the node has arrived") {
  Barriers barriers;
  barriers.Arrive(BodyOf(0, 3, 3, 0), 1);
  barriers.Arrive(BodyOf(2, 3, 3, 0), 1);
  const Millis now = SteadyClock();
  const BarrierState state = barriers.StateOf(kAttempt, 1, now);
  CHECK(state.passed == 0);
  CHECK(state.missing == std::vector<RankArrival>{{1, 0, false, 0}});
  barriers.Arrive(BodyOf(1, 3, 3, 0), 1);
  CHECK(barriers.StateOf(kAttempt, 1, now).passed == 1);
}

TEST_CASE("an arrival that is repeated, or comes late, changes nothing") {
  Barriers barriers;
  for (uint64_t number : {2, 1, 2}) barriers.Arrive(BodyOf(0, 2, 2, 0), number);
  barriers.Arrive(BodyOf(1, 2, 2, 0), 1);
  CHECK(barriers.StateOf(kAttempt, 2, SteadyClock()).passed == 1);
  barriers.Arrive(BodyOf(1, 2, 2, 0), 2);
  CHECK(barriers.StateOf(kAttempt, 2, SteadyClock()).passed == 2);
}

TEST_CASE("a rank that has ended is told of after a grace, unless it had arrived") {
  Barriers barriers;
  barriers.Arrive(BodyOf(0, 2, 2, 0), 2);
  barriers.Arrive(BodyOf(1, 2, 2, 0), 1);
  const Millis ended = SteadyClock();
  barriers.NoteEnd({kAttempt, 1}, ended);
  CHECK(barriers.StateOf(kAttempt, 2, ended + limits::kBarrierEndGrace - 1).ended.empty());
  CHECK(barriers.StateOf(kAttempt, 2, ended + limits::kBarrierEndGrace).ended ==
        std::vector<uint32_t>{1});
  CHECK(barriers.StateOf(kAttempt, 1, ended + limits::kBarrierEndGrace).ended.empty());
}

TEST_CASE("ranks of two nodes pass once the other node has asked and learnt") {
  TwoNodes nodes;
  const Millis now = SteadyClock();
  nodes.follower.Arrive(BodyOf(1, 3, 2, 1), 1);
  CHECK(nodes.Ask(now) == 0);  // Another rank there has not arrived.
  nodes.follower.Arrive(BodyOf(2, 3, 2, 1), 1);
  CHECK(nodes.Ask(now) == 1);
  CHECK(nodes.Ask(now) == 0);  // It is under way.
  CHECK(nodes.answers.empty());
  nodes.leader.Arrive(BodyOf(0, 3, 1, 0), 1);
  CHECK(nodes.leader.StateOf(kAttempt, 1, now).passed == 1);
  CHECK(nodes.follower.StateOf(kAttempt, 1, now).passed == 0);
  nodes.Learn(now);
  CHECK(nodes.follower.StateOf(kAttempt, 1, now).passed == 1);
}

TEST_CASE("a question without an answer is asked again, also after a restart of rank 0's daemon") {
  TwoNodes nodes;
  Millis now = SteadyClock();
  nodes.follower.Arrive(BodyOf(1, 2, 1, 1), 3);
  REQUIRE(nodes.Ask(now) == 1);
  nodes.follower.TakeAnswer(kAttempt, std::nullopt, now);
  CHECK(nodes.Ask(now) == 0);
  now += limits::kBarrierAskAgain;
  CHECK(nodes.Ask(now) == 1);
  Barriers restarted;
  const std::vector<BarrierQuestion> none = nodes.follower.TakeQuestions(now);
  CHECK(none.empty());
  restarted.Arrive(BodyOf(0, 2, 1, 0), 3);  // Rank 0 waits there, and says so again.
  nodes.follower.TakeAnswer(kAttempt, std::nullopt, now);
  now += limits::kBarrierAskAgain;
  const std::vector<BarrierQuestion> again = nodes.follower.TakeQuestions(now);
  REQUIRE(again.size() == 1);
  uint64_t passed = 0;
  restarted.Answer(again[0], 8, now, [&](const BarrierState& state) { passed = state.passed; });
  CHECK(passed == 3);
}

TEST_CASE("a held question is answered at its end with who is missing, and on which node") {
  TwoNodes nodes;
  Millis now = SteadyClock();
  nodes.follower.Arrive(BodyOf(1, 3, 2, 1), 1);
  now += limits::kBarrierTellAfter + 1'000;
  REQUIRE(nodes.Ask(now) == 1);  // Only so that the missing rank of its node can be named.
  nodes.leader.Arrive(BodyOf(0, 3, 1, 0), 1);
  nodes.leader.Tick(now + limits::kBarrierHold);
  nodes.Learn(now);
  CHECK(nodes.follower.StateOf(kAttempt, 1, now).missing ==
        std::vector<RankArrival>{{2, 0, false, 0}});
}

TEST_CASE("a rank that has only connected is missing on its node, whichever node is asked") {
  TwoNodes nodes;
  Millis now = SteadyClock();
  nodes.leader.NoteHello(BodyOf(0, 3, 1, 0));
  nodes.follower.NoteHello(BodyOf(1, 3, 2, 1));
  nodes.follower.Arrive(BodyOf(2, 3, 2, 1), 1);
  CHECK(nodes.Ask(now) == 0);
  now = SteadyClock() + limits::kBarrierTellAfter;
  REQUIRE(nodes.Ask(now) == 1);
  nodes.leader.Tick(now + limits::kBarrierHold);
  nodes.Learn(now);
  CHECK(nodes.leader.StateOf(kAttempt, 1, now).missing ==
        std::vector<RankArrival>{{0, 0, false, 0, true}, {1, 0, false, 8, false}});
  CHECK(nodes.follower.StateOf(kAttempt, 1, now).missing ==
        std::vector<RankArrival>{{0, 0, false, 7, false}, {1, 0, false, 0, true}});
}

TEST_CASE("a hello changes nothing for a rank that has arrived") {
  Barriers barriers;
  barriers.Arrive(BodyOf(0, 2, 2, 0), 2);
  barriers.Arrive(BodyOf(1, 2, 2, 0), 2);
  barriers.NoteHello(BodyOf(1, 2, 2, 0));
  CHECK(barriers.StateOf(kAttempt, 2, SteadyClock()).passed == 2);
}

TEST_CASE("stacks are in the message beside their ranks") {
  const BarrierState state{
      .passed = 0, .missing = {{1, 0, false, 0}, {2, 0, false, 8}}, .ended = {}};
  const Json message = BarrierMessage("missing", 1, state, {{2, "in f"}});
  CHECK(message.Dump() == R"({"op":"missing","number":1,"missing":[{"rank":1,"arrived":0},)"
                          R"({"rank":2,"arrived":0,"node":8,"stack":"in f"}],"ended":[]})");
}

TEST_CASE("a node that asks cannot speak for ranks of rank 0's node") {
  Barriers barriers;
  const Millis now = SteadyClock();
  barriers.Arrive(BodyOf(0, 2, 1, 0), 1);
  barriers.Answer({kAttempt, 7, 2, 5, {{0, 5, false, 0}, {1, 5, false, 0}, {9, 5, false, 0}}}, 8,
                  now, [](const BarrierState&) {});
  CHECK(barriers.StateOf(kAttempt, 5, now).passed == 1);
}

TEST_CASE("groups that only other nodes ask about are bounded, and forgotten") {
  Barriers barriers;
  const Millis now = SteadyClock();
  size_t answered = 0;
  for (uint32_t trial = 0; trial <= limits::kBarrierGroupsMax; ++trial)
    barriers.Answer({{Owner::Of(TrialId{{1}, trial}), 1, 1}, 7, 2, 1, {{1, 1, false, 0}}}, 8, now,
                    [&](const BarrierState&) { ++answered; });
  CHECK(answered == 1);  // The one beyond the bound, at once.
  barriers.Tick(now + limits::kBarrierHold);
  CHECK(answered == limits::kBarrierGroupsMax + 1);
  barriers.Tick(now + limits::kBarrierUnusedMax + 1);
  answered = 0;
  barriers.Answer({kAttempt, 7, 2, 1, {{1, 1, false, 0}}}, 8, now,
                  [&](const BarrierState&) { ++answered; });
  CHECK(answered == 0);  // Held, as there is room again.
}

}  // namespace rt::worker
