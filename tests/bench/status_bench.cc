// What `rt status` costs the head's core thread while a search of 10 000 trials runs on 1 000
// nodes, and as many trials wait as the head proposes ahead: the read model and its text, in
// processor time of this thread, so that the figure holds on a busy machine too.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "common/base/check.h"
#include "head/core/view.h"
#include "tests/bench/fleet.h"

namespace rt::bench {
namespace {

constexpr int kCalls = 500;
constexpr size_t kCacheBytes = size_t{64} << 20;  // More than a processor caches.
constexpr int kCallsPerRound = 25;
constexpr double kBar = 10;

double ThreadMs() {
  timespec time{};
  RT_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
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
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main() { return rt::bench::Main(); }
