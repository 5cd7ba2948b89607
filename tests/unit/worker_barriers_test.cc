// The barrier of ranks: who has arrived, on one node and on several; lost and repeated answers.
#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/run/clock.h"
#include "worker/session/barriers.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

const AttemptId kAttempt{Owner::Of(TrialId{{1}, 0}), 1, 1};

LaunchSpec BodyOf(uint32_t rank, uint32_t world_size, uint32_t local_size, uint32_t group) {
  LaunchSpec body;
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
  barriers.Arrive(BodyOf(0, 3, 3, 0), 1, SteadyClock());
  barriers.Arrive(BodyOf(2, 3, 3, 0), 1, SteadyClock());
  const Millis now = SteadyClock();
  const BarrierState state = barriers.StateOf(kAttempt, 1, now);
  CHECK(state.passed == 0);
  CHECK(state.missing == std::vector<RankArrival>{{1, 0, false, 0}});
  barriers.Arrive(BodyOf(1, 3, 3, 0), 1, SteadyClock());
  CHECK(barriers.StateOf(kAttempt, 1, now).passed == 1);
}

TEST_CASE("an arrival that is repeated, or comes late, changes nothing") {
  Barriers barriers;
  for (uint64_t number : {2, 1, 2}) barriers.Arrive(BodyOf(0, 2, 2, 0), number, SteadyClock());
  barriers.Arrive(BodyOf(1, 2, 2, 0), 1, SteadyClock());
  CHECK(barriers.StateOf(kAttempt, 2, SteadyClock()).passed == 1);
  barriers.Arrive(BodyOf(1, 2, 2, 0), 2, SteadyClock());
  CHECK(barriers.StateOf(kAttempt, 2, SteadyClock()).passed == 2);
}

TEST_CASE("a rank that has ended is told of after a grace, unless it had arrived") {
  Barriers barriers;
  barriers.Arrive(BodyOf(0, 2, 2, 0), 2, SteadyClock());
  barriers.Arrive(BodyOf(1, 2, 2, 0), 1, SteadyClock());
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
  nodes.follower.Arrive(BodyOf(1, 3, 2, 1), 1, SteadyClock());
  CHECK(nodes.Ask(now) == 0);  // Another rank there has not arrived.
  nodes.follower.Arrive(BodyOf(2, 3, 2, 1), 1, SteadyClock());
  CHECK(nodes.Ask(now) == 1);
  CHECK(nodes.Ask(now) == 0);  // It is under way.
  CHECK(nodes.answers.empty());
  nodes.leader.Arrive(BodyOf(0, 3, 1, 0), 1, SteadyClock());
  CHECK(nodes.leader.StateOf(kAttempt, 1, now).passed == 1);
  CHECK(nodes.follower.StateOf(kAttempt, 1, now).passed == 0);
  nodes.Learn(now);
  CHECK(nodes.follower.StateOf(kAttempt, 1, now).passed == 1);
}

TEST_CASE("a question without an answer is asked again, also after a restart of rank 0's daemon") {
  TwoNodes nodes;
  Millis now = SteadyClock();
  nodes.follower.Arrive(BodyOf(1, 2, 1, 1), 3, SteadyClock());
  REQUIRE(nodes.Ask(now) == 1);
  nodes.follower.TakeAnswer(kAttempt, std::nullopt, now);
  CHECK(nodes.Ask(now) == 0);
  now += limits::kBarrierAskAgain;
  CHECK(nodes.Ask(now) == 1);
  Barriers restarted;
  const std::vector<BarrierQuestion> none = nodes.follower.TakeQuestions(now);
  CHECK(none.empty());
  restarted.Arrive(BodyOf(0, 2, 1, 0), 3, SteadyClock());  // Rank 0 says so again.
  nodes.follower.TakeAnswer(kAttempt, std::nullopt, now);
  now += limits::kBarrierAskAgain;
  const std::vector<BarrierQuestion> again = nodes.follower.TakeQuestions(now);
  REQUIRE(again.size() == 1);
  uint64_t passed = 0;
  restarted.Answer(again[0], 8, now, [&](const BarrierState& state) { passed = state.passed; });
  CHECK(passed == 3);
}

TEST_CASE("a daemon that starts answers by what was kept, although rank 0 has gone on") {
  std::vector<uint64_t> kept;
  bool was_told = false;
  Barriers leader, restarted;
  leader.SetEvents({.keep = [&](const AttemptId& attempt, uint64_t passed) {
    CHECK(attempt == kAttempt);
    CHECK_FALSE(was_told);
    CHECK(leader.StateOf(kAttempt, passed, SteadyClock()).passed < passed);  // Nobody knows yet.
    kept.push_back(passed);
  }});
  const Millis now = SteadyClock();
  const BarrierQuestion question{kAttempt, 7, 2, 3, {{1, 3, false, 0}}};
  leader.Answer(question, 8, now, [&](const BarrierState&) { was_told = true; });
  leader.Arrive(BodyOf(0, 2, 1, 0), 3, now);
  CHECK(kept == std::vector<uint64_t>{3});
  CHECK(was_told);  // But the other node never heard it.

  restarted.SetEvents({.kept = [&](const AttemptId&) { return kept.back(); }});
  uint64_t passed = 0;
  restarted.Answer(question, 8, now, [&](const BarrierState& state) { passed = state.passed; });
  CHECK(passed == 3);
  CHECK(restarted.StateOf(kAttempt, 4, now).passed == 3);
}

TEST_CASE("a held question is answered at its end with who is missing, and on which node") {
  TwoNodes nodes;
  Millis now = SteadyClock();
  nodes.follower.Arrive(BodyOf(1, 3, 2, 1), 1, SteadyClock());
  now += limits::kBarrierTellAfter + 1'000;
  REQUIRE(nodes.Ask(now) == 1);  // Only so that the missing rank of its node can be named.
  nodes.leader.Arrive(BodyOf(0, 3, 1, 0), 1, SteadyClock());
  nodes.leader.Tick(now + limits::kBarrierHold);
  nodes.Learn(now);
  CHECK(nodes.follower.StateOf(kAttempt, 1, now).missing ==
        std::vector<RankArrival>{{2, 0, false, 0}});
}

TEST_CASE("a rank that has only connected is missing on its node, whichever node is asked") {
  TwoNodes nodes;
  Millis now = SteadyClock();
  nodes.leader.NoteHello(BodyOf(0, 3, 1, 0), SteadyClock());
  nodes.follower.NoteHello(BodyOf(1, 3, 2, 1), SteadyClock());
  nodes.follower.Arrive(BodyOf(2, 3, 2, 1), 1, SteadyClock());
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
  barriers.Arrive(BodyOf(0, 2, 2, 0), 2, SteadyClock());
  barriers.Arrive(BodyOf(1, 2, 2, 0), 2, SteadyClock());
  barriers.NoteHello(BodyOf(1, 2, 2, 0), SteadyClock());
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
  barriers.Arrive(BodyOf(0, 2, 1, 0), 1, SteadyClock());
  barriers.Answer({kAttempt, 7, 2, 5, {{0, 5, false, 0}, {1, 5, false, 0}, {9, 5, false, 0}}}, 8,
                  now, [](const BarrierState&) {});
  CHECK(barriers.StateOf(kAttempt, 5, now).passed == 1);
}

TEST_CASE("a node without a rank of the attempt decides nothing at its barrier") {
  const Millis now = SteadyClock();
  const Millis later = now + limits::kBarrierEndGrace;
  for (const bool is_early : {false, true}) {  // Before or after the first rank has arrived.
    for (const bool has_ended : {false, true}) {
      INFO("early " << is_early << ", ended " << has_ended);
      Barriers barriers;
      bool answered = false;
      LaunchSpec first = BodyOf(0, 3, 2, 0);
      first.rank_nodes = {NodeId{7}, NodeId{7}, NodeId{8}};
      const BarrierQuestion lie{
          kAttempt, 7, 3, 5, {{0, 5, has_ended}, {1, 5, has_ended}, {2, 5, has_ended}}};
      const auto tell = [&] {
        barriers.Answer(lie, 9, now, [&](const BarrierState& state) {
          answered = true;
          CHECK((state.passed == 0 && state.ended.empty()));
        });
      };
      if (is_early) tell();
      barriers.Arrive(first, 1, now);
      if (!is_early) {
        tell();
        CHECK(answered);  // At once, with nothing.
      }
      const BarrierState state = barriers.StateOf(kAttempt, 1, later);
      CHECK((state.passed == 0 && state.ended.empty()));
      CHECK(state.missing == std::vector<RankArrival>{{1, 0, false, 0}, {2, 0, false, 0}});
      barriers.Answer({kAttempt, 7, 3, 1, {{1, 4, false}, {2, 1, false}}}, 8, now,
                      [](const BarrierState&) {});
      CHECK(barriers.StateOf(kAttempt, 1, later).passed == 0);  // Rank 1 is here.
      LaunchSpec second = BodyOf(1, 3, 2, 0);
      second.rank_nodes = first.rank_nodes;
      barriers.Arrive(second, 1, now);
      CHECK(barriers.StateOf(kAttempt, 1, later).passed == 1);
    }
  }
}

TEST_CASE("ranks beyond the world of the attempt, claimed before rank 0 arrives, are discarded") {
  Barriers barriers;
  const Millis now = SteadyClock();
  const uint32_t most = limits::kBundlesMax;
  std::vector<RankArrival> claimed;
  for (uint32_t rank = 1; rank < most; ++rank) claimed.push_back({rank, 0, false, 0});
  barriers.Answer({kAttempt, 7, most, 1, claimed}, 9, now, [](const BarrierState&) {});
  barriers.Answer({kAttempt, 7, 2, 1, {{1, 1, false, 0}}}, 8, now, [](const BarrierState&) {});
  barriers.Arrive(BodyOf(0, 2, 1, 0), 1, SteadyClock());
  CHECK(barriers.StateOf(kAttempt, 1, now).passed == 1);
}

TEST_CASE("a barrier is not passed by what other nodes say before a rank has arrived here") {
  Barriers barriers;
  const Millis now = SteadyClock();
  barriers.Answer({kAttempt, 7, 2, 5, {{0, 5, false, 0}, {1, 5, false, 0}}}, 9, now,
                  [](const BarrierState&) {});
  uint64_t passed = 0;
  barriers.Answer({kAttempt, 7, 2, 1, {{1, 1, false, 0}}}, 8, now,
                  [&](const BarrierState& state) { passed = state.passed; });
  barriers.Tick(now + limits::kBarrierHold);
  CHECK(passed == 0);
}

TEST_CASE("a node that does not have rank 0 passes on only its own ranks' arrivals") {
  Barriers follower;
  const Millis now = SteadyClock();
  bool refused = false;
  for (const bool is_early : {true, false}) {
    if (!is_early) follower.Arrive(BodyOf(1, 3, 2, 1), 1, SteadyClock());
    follower.Answer({kAttempt, 8, 3, 1, {{2, 1, false, 0}}}, 9, now,
                    [&](const BarrierState&) { refused = true; });
  }
  CHECK(refused);
  CHECK(follower.TakeQuestions(now).empty());  // Its other rank has not arrived.
  follower.Arrive(BodyOf(2, 3, 2, 1), 1, SteadyClock());
  const std::vector<BarrierQuestion> questions = follower.TakeQuestions(now);
  REQUIRE(questions.size() == 1);
  CHECK(questions[0].ranks.size() == 2);
}

TEST_CASE("rank 0 that ended before it arrived is told of to the other nodes") {
  Barriers barriers;
  const Millis now = SteadyClock();
  std::vector<uint32_t> ended;
  barriers.Answer({kAttempt, 7, 2, 1, {{1, 1, false, 0}}}, 8, now,
                  [&](const BarrierState& state) { ended = state.ended; });
  barriers.NoteEnd({kAttempt, 0}, now);
  barriers.Tick(now + limits::kBarrierEndGrace);
  CHECK(ended == std::vector<uint32_t>{0});
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
