// What `rt status` costs the head's core thread while a search of 10 000 trials runs on 1 000
// nodes, and as many trials wait as the head proposes ahead: the read model and its text, in
// processor time of this thread, so that the figure holds on a busy machine too. Then the list of
// 10 000 trials that wait beside them, and Status with 5 000 jobs that are over.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "head/view/view.h"
#include "tests/bench/fleet.h"

namespace rt::bench {
namespace {

constexpr int kCalls = 500;
constexpr size_t kCacheBytes = size_t{64} << 20;  // More than a processor caches.
constexpr int kCallsPerRound = 25;
constexpr double kBar = 10;
constexpr int kWaitingExperiments = 10;  // Of 1 000 trials each.
constexpr uint64_t kJobs = 5'000;
constexpr double kListBar = 500;
constexpr double kBytesBar = 100;

double ThreadMs() {
  timespec time{};
  RT_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

void Give(Core& core, Millis now, Input input) {
  const Outcome outcome = Step(core, input, now);
  RT_CHECK_BECAUSE(outcome.verdict.ok(), outcome.verdict.ToString().c_str());
}

// All parts of a list that is longer than a message.
size_t ListTrials(const Core& core, const HeadFacts& facts, ExperimentId id) {
  size_t listed = 0;
  std::optional<TrialId> from;
  do {
    const absl::StatusOr<Json> part = TrialListView(core, facts, {id, from});
    RT_CHECK(part.ok());
    part->Dump();
    listed += part->Find("items")->array().size();
    from = ParseTrialId(part->GetString("next"));
  } while (from);
  return listed;
}

// `core` has no capacity left for what is submitted here.
void ListWaiting(Core core, Millis now) {
  for (int i = 0; i < kWaitingExperiments; ++i) {
    Give(core, now, input::CreateExperiment{
        .owner = "bench",
        .spec = R"({"experiment":"waits","command":["train"],"num_samples":1000,)"
                R"("space":{"lr":{"loguniform":[1e-4,1e-1]}}})",
        .request_key = std::to_string(i),
        .results_root = "/results"});
  }
  while (core.world.state.experiments.rbegin()->second.trials.size() < 1'000)
    Give(core, now, input::Tick{});
  const HeadFacts facts{.address = "10.0.0.1:7070", .now = now};
  const double start = ThreadMs();
  size_t listed = 0;
  for (uint64_t i = 0; i < kWaitingExperiments; ++i)
    listed += ListTrials(core, facts, {core.world.state.next_experiment - 1 - i});
  std::printf("BENCH trial_list_waiting %.0f ms bar <=%.0f peer none\n", ThreadMs() - start,
              kListBar);
  std::printf("# %zu waiting trials, 1000 nodes\n", listed);
}

void StatusWithJobs(Core core, Millis now) {
  for (uint64_t i = 1; i <= kJobs; ++i) {
    Give(core, now, input::SubmitJob{
        "bench", R"({"name":"job","argv":["driver","--seed","7"],"resources":{"cpu":99}})",
        std::to_string(i)});
    Give(core, now, input::StopJob{{core.world.state.next_job - 1}, "bench"});
  }
  const HeadFacts facts{.address = "10.0.0.1:7070", .now = now};
  const double start = ThreadMs();
  const size_t bytes = StatusView(core, facts).Dump().size();
  std::printf("BENCH status_bytes_5000_jobs %.0f kB bar <=%.0f peer none\n",
              static_cast<double>(bytes) / 1e3, kBytesBar);
  std::printf("# %.1f ms\n", ThreadMs() - start);
}

int Main() {
  Fleet fleet({.jobs_percent = 0, .max_concurrent = false},
              [](auto, const auto&, Millis, const Outcome&) {});
  fleet.SetUp();
  for (int i = 0; i < 10; ++i) fleet.Round();
  std::vector<double> took, views;
  std::vector<char> other(kCacheBytes);
  size_t bytes = 0;
  const HeadFacts facts{.address = "10.0.0.1:7070", .now = fleet.now()};
  for (int i = 0; i < kCalls; ++i) {
    if (i % kCallsPerRound == 0) fleet.Round();
    // Between two calls the head takes thousands of reports: nothing of the state is cached.
    for (size_t at = 0; at < other.size(); at += 64) other[at] = static_cast<char>(i);
    const double start = ThreadMs();
    const Json view = StatusView(fleet.core(), facts);
    views.push_back(ThreadMs() - start);
    bytes = view.Dump().size();
    took.push_back(ThreadMs() - start);
  }
  std::sort(took.begin(), took.end());
  std::sort(views.begin(), views.end());
  const Json view = StatusView(fleet.core(), facts);
  std::printf("BENCH status_head_p99 %.2f ms bar <=%.0f peer none\n", took[kCalls * 99 / 100],
              kBar);
  std::printf("# median %.2f ms, of which the view %.2f ms; %zu bytes; 1000 nodes, %s by state, "
              "%zu of those that wait are listed\n",
              took[kCalls / 2], views[kCalls / 2], bytes,
              view.Find("experiments")->array().at(0).Find("trials_by_state")->Dump().c_str(),
              view.Find("pending")->array().size());
  ListWaiting(fleet.core(), fleet.now());
  StatusWithJobs(fleet.core(), fleet.now());
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main() { return rt::bench::Main(); }
