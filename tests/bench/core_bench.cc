// Inputs per second through Step. A search of 10 000 trials at once on 1 000 workers is played once
// to get the inputs, and every one of them is seen to take effect. Then the same inputs go through
// a fresh core, and only that is timed: events, rows, digests and the index, as in the head.
#include <chrono>
#include <cstdio>
#include <map>

#include "common/base/check.h"
#include "tests/bench/fleet.h"

namespace rt::bench {
namespace {

constexpr size_t kInputs = 300'000;
constexpr double kBar = 200'000;

struct Timed {
  Input input;
  Millis now;
};
struct Script {
  std::vector<Timed> set_up, inputs;
  std::map<Fleet::Kind, uint64_t> kinds;
  std::map<std::string, uint64_t> events;
  uint64_t seq = 0;
  std::string dump;
};

// A renewed lease is an effect that no event shows.
bool TookEffect(Fleet::Kind kind, const Outcome& outcome) {
  bool has_placed = false, has_other = !outcome.records.empty();
  for (const Record& record : outcome.records)
    has_placed = has_placed || std::holds_alternative<event::AttemptPlaced>(record.event);
  return kind == Fleet::Kind::kPlacement ? has_placed : has_other || kind == Fleet::Kind::kRenewal;
}

Script Write() {
  Script script;
  Fleet fleet({}, [&](Fleet::Kind kind, const Input& input, Millis now, Outcome outcome) {
    if (kind == Fleet::Kind::kSetUp) {
      script.set_up.push_back({input, now});
      return;
    }
    if (script.inputs.size() == kInputs) return;
    RT_CHECK_BECAUSE(TookEffect(kind, outcome), "an input without effect");
    script.inputs.push_back({input, now});
    ++script.kinds[kind];
    for (const Record& record : outcome.records) ++script.events[EventName(record.event)];
    if (!outcome.records.empty()) script.seq = outcome.records.back().seq;
  });
  fleet.SetUp();
  for (int i = 0; i < 10; ++i) fleet.Round();  // Past the crowd that starts together.
  script.set_up.insert(script.set_up.end(), script.inputs.begin(), script.inputs.end());
  script.inputs.clear();
  script.kinds.clear();
  script.events.clear();
  while (script.inputs.size() < kInputs) fleet.Round();
  return script;
}

void Print(const Script& script, double seconds) {
  const double rate = static_cast<double>(script.inputs.size()) / seconds;
  std::printf("BENCH core_inputs %.0f inputs/s bar >=%.0f peer none\n", rate, kBar);
  const auto count = [&](Fleet::Kind kind) {
    auto found = script.kinds.find(kind);
    return static_cast<unsigned long>(found == script.kinds.end() ? 0 : found->second);
  };
  std::printf("# mix: %lu reports of one row, %lu syncs with starts, %lu syncs with exits (a freed "
              "slot is placed anew), %lu placements of a job, %lu lease renewals\n",
              count(Fleet::Kind::kReport), count(Fleet::Kind::kStart), count(Fleet::Kind::kExit),
              count(Fleet::Kind::kPlacement), count(Fleet::Kind::kRenewal));
  std::printf("# events:");
  for (const auto& [name, events] : script.events)
    std::printf(" %s %lu", name.c_str(), static_cast<unsigned long>(events));
  std::printf("\n");
}

int Main() {
  const Script script = Write();
  Core core;
  for (const Timed& timed : script.set_up) Step(core, timed.input, timed.now);
  uint64_t rows = 0;
  const auto start = std::chrono::steady_clock::now();
  for (const Timed& timed : script.inputs) {
    Outcome outcome = Step(core, timed.input, timed.now);
    rows += outcome.rows.size();
    core.soft.dirty.clear();  // As the loop does after each batch.
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  RT_CHECK_BECAUSE(core.world.state.seq == script.seq, "the second run took another way");
  RT_CHECK(rows > 0);
  CheckInvariants(core);
  Print(script, elapsed.count());
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main() { return rt::bench::Main(); }
