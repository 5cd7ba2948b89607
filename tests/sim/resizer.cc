#include "tests/sim/resizer.h"

#include <algorithm>

#include "common/base/limits.h"
#include "tests/sim/worker_host.h"

namespace rt::sim {
namespace {

constexpr uint64_t kRanksMost = 4;

}  // namespace

void Resizer::AskLater() {
  sim_.At(Between(200, 1'500), [this] {
    if (sim_.calm) return;
    if (rng_.Chance(rate_)) Ask();
    AskLater();
  });
}

// A resize of what has just ended is refused.
void Resizer::Ask() {
  // The first node stays to the end: what is resized can run there.
  const auto live = auditor_.LiveTrials(sim_.hosts.front()->size());
  if (live.empty()) return;
  const auto& [trial, most] = live[rng_.Below(live.size())];
  input::ResizeRun resize;
  resize.owner = Owner::Of(trial);
  resize.ranks = std::min(static_cast<uint32_t>(1 + rng_.Below(kRanksMost)), most);
  const Millis within[] = {Between(1, 500), Between(500, 5'000), limits::kResizeSaveWithin};
  resize.save_within = within[rng_.Below(3)];
  sim_.faults.Add(Fault::kResizeRequested);
  sim_.truth.resizes[resize.owner].insert(resize.ranks);
  sim_.Call([this, resize](const Sim::Reply&) { head_.Post(resize, {}); });
}

}  // namespace rt::sim
