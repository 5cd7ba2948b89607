// The loop with the compute lane: a real thread, a journal in memory.
#include "head/core/answer_checker.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

input::CreateExperiment ModelSearch(const std::string& name) {
  return {.owner = "me",
          .spec = R"({"experiment":")" + name +
                  R"(","command":["x"],"space":{"x":{"uniform":[0,1]}},"metric":"loss",)"
                  R"("mode":"min","search":{"tpe":{"startup_trials":2}},"num_samples":20})",
          .request_key = name,
          .drawn_seed = 5,
          .results_root = "/r"};
}

size_t TrialsOf(LoopHarness& harness, uint64_t experiment) {
  size_t count = 0;
  harness.Read([&](const Core& core) {
    count = core.world.state.experiments.at({experiment}).trials.size();
  });
  return count;
}

}  // namespace

TEST_CASE("loop: the lane proposes for several experiments, and each answer computes again") {
  Harness harness;
  const NodeId node = harness.Join();
  harness.Settle(node);
  for (const char* name : {"a", "b", "c"}) {
    auto created = harness.Post(ModelSearch(name));
    REQUIRE(Wait(created).status.ok());
  }
  // The node has capacity for two trials, of whichever experiments; each has one that waits.
  for (uint64_t id : {1u, 2u, 3u}) WaitFor([&] { return TrialsOf(harness, id) > 0; });
  AnswerChecker checker;
  REQUIRE(harness.journal
              .Read(0,
                    [&](const Record& record) {
                      const absl::Status same = checker.See(record);
                      CHECK(same.ok());
                      return absl::OkStatus();
                    })
              .ok());
  CHECK(checker.answers() >= 3);
}

TEST_CASE("loop: a head that starts again asks its models again, and stops while they think") {
  MemoryJournal journal;
  for (int i = 0; i < 5; ++i) {
    LoopHarness harness;
    harness.Start(journal);
    if (i == 0) {
      const NodeId node = harness.Join();
      harness.Settle(node);
    }
    const std::string name = "e" + std::to_string(i);
    auto created = harness.Post(ModelSearch(name));
    const Answered answered = Wait(created);
    REQUIRE(answered.status.ok());
    // Every other head stops while its lane may be busy.
    if (i % 2 == 0)
      WaitFor([&] { return TrialsOf(harness, answered.answer.experiment.value) > 0; });
    harness.loop.reset();
  }
}
