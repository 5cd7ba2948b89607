// A story for tests of the core, told by hand.
#pragma once

#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/answer_checker.h"
#include "head/core/core.h"
#include "head/core/desired.h"
#include "head/view/view.h"

namespace rt {

// A head with one node of two cpus, driven by hand; every step is replayed on a shadow, and what
// algorithms answer is computed again.
struct Story {
  Core core;
  World shadow;
  AnswerChecker answers;
  Millis now = 1'000'000;
  uint64_t sync_seq = 0;
  NodeId node{1};
  std::map<Fence, Observed> running;

  Outcome Do(const Input& input) {
    Outcome outcome = Step(core, input, now);
    for (const Record& record : outcome.records) {
      Apply(shadow, record);
      const absl::Status same = answers.See(record);
      INFO(same.ToString());
      REQUIRE(same.ok());
    }
    CheckInvariants(core);
    REQUIRE(CanonicalDump(core.world.state) == CanonicalDump(shadow.state));
    return outcome;
  }
  // A record from elsewhere: of an earlier head, or of a later one.
  void Take(const Record& record) {
    Apply(core.world, record);
    Apply(shadow, record);
    REQUIRE(answers.See(record).ok());
  }
  Story() {
    Do(input::StartHead{"c", "test", "1"});
    Do(input::CreateToken{"tok", "worker", 1000, ""});
    REQUIRE(Do(input::UseToken{"tok", "n1"}).answer.node == node);
    Sync();
  }
  input::Sync SyncInput() {
    input::Sync sync{.node = node, .incarnation = 7, .sync_seq = ++sync_seq};
    sync.inventory.resources.cpu = 2 * kUnit;
    for (const auto& [fence, observed] : running) sync.observed.push_back(observed);
    return sync;
  }
  void Sync() {
    Do(SyncInput());
    for (const DesiredAttempt& desired : DesiredFor(core.world, node))
      if (!running.contains(desired.fence))
        running[desired.fence] = {desired.fence, Observed::Phase::kRunning, 4242};
  }
  void SyncTwice() {
    Sync();
    Sync();
  }
  ExperimentId Create(const std::string& more) {
    Outcome outcome = Do(input::CreateExperiment{
        .spec = R"({"experiment":"e","command":["x"])" + more + "}", .request_key = more,
        .drawn_seed = 9, .results_root = "/r"});
    INFO(outcome.verdict.ToString());
    REQUIRE(outcome.verdict.ok());
    return outcome.answer.experiment;
  }
  Fence FenceOf(uint32_t trial, uint32_t attempt = 1) {
    return {{Owner::Of(TrialId{{1}, trial}), attempt, 1}, 0};
  }
  ReportVerdict Report(const Fence& fence, uint64_t seq, const std::string& metrics) {
    RowBatch batch{fence.attempt, 0, {{seq, static_cast<double>(seq), 1, now, metrics}}};
    return Do(input::Report{node, {batch}}).answer.verdicts.at(0);
  }
  void Exit(const Fence& fence, int code, uint64_t last_seq, bool witnessed = true) {
    running[fence].phase = Observed::Phase::kExited;
    running[fence].exit_code = code;
    running[fence].last_seq = last_seq;
    running[fence].witnessed = witnessed;
    Sync();
    if (FindLive(core.world.state, fence.attempt) == nullptr) running.erase(fence);
    SyncTwice();
  }
  // Generation 1 of the first trial saves and ends, as their worker reports it.
  void SaveAndEnd() {
    const Fence fence = FenceOf(0);
    Do(input::CommitCheckpoint{.node = node,
                               .fence = fence,
                               .manifest = "m",
                               .row = {.seq = 1, .iteration = 1, .metrics = "{}"},
                               .bytes = 1});
    Observed& observed = running.at(fence);
    observed.phase = Observed::Phase::kExited;
    observed.suspended = true;
    observed.signal = 15;
    observed.last_seq = 1;
    Sync();
  }
  const Trial& TrialOf(uint32_t number) { return *FindTrial(core.world.state, {{1}, number}); }
  std::string StateOf(uint32_t number) { return TrialStateName(core, TrialOf(number)); }
};

}  // namespace rt
