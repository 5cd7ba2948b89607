// What elastic attempts measure: rank 0 measures a step for each row. Its daemon sends that with
// each Sync until the head has recorded it, and forgets it when it ends, as ProfileQueue does.
#include "tests/sim/worker_host.h"

namespace rt::sim {
namespace {

constexpr uint32_t kLocalBatch = 16;

ElasticProfile Measured(const LaunchSpec& body, uint64_t steps, double progress, double total) {
  StepPoint point{.nodes = 1, .ranks = body.world_size, .local_batch = kLocalBatch};
  point.count = steps;
  point.sync_mean = body.world_size > 1 ? 0.002 : 0;
  point.step_mean = 0.05 + point.sync_mean;
  point.step_variance = 1e-6;
  ElasticProfile profile{.batches = {.initial = kLocalBatch, .most = 8 * kLocalBatch},
                         .noise = {.squared_norm = 0.05, .variance = 1},
                         .progress = progress,
                         .total = total,
                         .points = {point}};
  profile.batches.accumulates = true;
  return profile;
}

}  // namespace

void WorkerHost::AddProfiles(input::Sync& sync) {
  for (auto& [fence, run] : runs_) {
    if (!run.body.takes_profile || !run.alive) continue;
    if (!run.measured.has_value() && run.seq > run.measured_to) {
      run.measured = ProfileReport{
          fence, run.seq,
          Measured(run.body, run.seq - run.measured_to, run.iteration, run.iterations_total)};
      run.measured_to = run.seq;
    }
    if (run.measured.has_value()) sync.profiles.push_back(*run.measured);
  }
}

void WorkerHost::NoteRecorded(const Fence& fence, uint64_t seq) {
  const auto run = runs_.find(fence);
  if (run == runs_.end() || !run->second.measured.has_value()) return;
  if (seq >= run->second.measured->seq) run->second.measured.reset();
}

}  // namespace rt::sim
