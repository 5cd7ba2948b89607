// What attempts wrote: the daemon that ran one names it once the attempt is over, several times,
// and now and then too early, or for a rank that is not its own.
#include "tests/sim/worker_host.h"

namespace rt::sim {
namespace {

constexpr int kTries = 3;
constexpr double kWrites = 0.3;     // Of attempts.
constexpr double kTooEarly = 0.05;  // A daemon that takes one that runs for over.
constexpr double kOther = 0.1;      // One that takes itself for the next rank's.

}  // namespace

void WorkerHost::OutputsOfStarted(const Fence& fence) {
  if (sim_.rng.Chance(kTooEarly)) SendOutputs(fence, 1);
}

void WorkerHost::OutputsOfForgotten(const Fence& fence) {
  if (sim_.rng.Chance(kOther)) SendOutputs({fence.attempt, fence.rank + 1}, 1);
  if (sim_.rng.Chance(kWrites)) SendOutputs(fence, kTries);
}

// Who is not heard says it again a few times; no later daemon does.
void WorkerHost::SendOutputs(const Fence& fence, int tries) {
  const std::string manifest = "o" + ToString(fence) + "@" + std::to_string(node_.value);
  sim_.truth.outputs[manifest] = {fence, node_};
  const input::KeepOutputs keep{.node = node_,
                                .fence = fence,
                                .outputs = {.manifest = manifest, .files = 1},
                                .seen_epoch = core_.epoch};
  Daemon(sim_.Between(10, 2'000), [=, this] {
    if (node_ != keep.node) return;
    sim_.Call([=, this](const Sim::Reply&) {
      head_.Post(keep, [=, this](const absl::Status& status, const Answer&) {
        const bool is_late = absl::IsFailedPrecondition(status);
        Require(status.ok() || absl::IsUnavailable(status) || is_late, "outputs were refused");
        Require(!status.ok() || auditor_.KeepsOutputs(fence, manifest),
                "outputs that were taken are not kept");
      });
    });
    if (tries > 1) SendOutputs(fence, tries - 1);
  });
}

}  // namespace rt::sim
