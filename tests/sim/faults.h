// What may go wrong in the simulator, how often, and how often it did. A fault is counted when it
// took effect: when the message was lost, not when the dice were thrown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/rng.h"

namespace rt::sim {

enum class Fault : size_t {
  kLostBefore,       // A request never reached the head.
  kLostDuring,       // The connection broke while the head worked on it; the caller asked again.
  kLostAfter,        // The head did it, the answer was lost.
  kDuplicated,       // A request arrived twice.
  kReordered,        // A request arrived late, behind younger ones.
  kDaemonKilled,     // A worker daemon died; its programs went on.
  kStoppedInOrder,   // A worker daemon announced to be away, and ended; its programs went on.
  kNodeRebooted,     // Daemon and programs died; the disk survived.
  kRunsForgotten,    // It kept its identity and lost its run directories.
  kNodeReplaced,     // The same with another disk: it joined as a new node.
  kNodeGone,         // It never came back.
  kNodeRemoved,      // Somebody removed it while it worked.
  kNodeDrained,      // A preemption notice.
  kNoticeTrue,       // Its node went, at its deadline or before.
  kDaemonStopped,    // SIGSTOP of the daemon.
  kNodeFrozen,       // The whole node stood still.
  kHeadStopped,      // SIGSTOP of the head.
  kClockJumped,      // The head's wall clock was set forward or back while it was down.
  kHeadCrashed,      // With nothing in flight.
  kHeadCrashedBusy,  // With batches in flight.
  kBatchesLost,      // Some of which the disk never saw.
  kTakenOver,        // A standby took the head's place.
  kOldHeadAnswered,  // The one before still answered a call.
  kOldHeadFenced,    // It would have written, and ended.
  kDriverKilled,     // A driver that an experiment asks died, or was run twice.
  kModelSlow,        // A search model had no answer in time.
  kModelLate,        // Its answer came late.
  kModelSilent,      // Its answer never came,
  kModelOverdue,     // and the head continued without it.
  kTrialHung,        // A program reported nothing more.
  kTrialFailed,      // A program failed and its daemon saw it.
  kExitUnseen,       // A program ended while its daemon was down.
  kLaunchFailed,
  kCheckpointBroken,  // Its bytes could not be restored.
  kReplicaGone,       // A node lost the bytes that it held until the store had them.
  kHeadAway,          // A worker heard of no head for so long that it ended what ran.
  kGpuSick,           // A gpu fell off its bus; what ran on it went on.
  kProbedAtFault,     // A person's probe found a gpu at fault.
  kPreflightFailed,   // The test of a trial's gpus found one sick before the trial started.
  kPreflightBroken,   // It could not be made.
  kLinkSlow,          // The test of a gang found the network between its nodes to be slow.
  kFreezeFailed,   // A program could not be frozen; now and then it could not run any more, either.
  kThawFailed,     // A frozen program could not continue.
  kFrozenKilled,   // A frozen program was killed.
  kStopRequested,  // A person stopped a trial, a job or an experiment.
  kPauseRequested,   // A person paused a trial or an experiment.
  kReopened,         // A person extended or resumed a search that was over, or retried a trial.
  kDrainRequested,   // A person drained a node.
  kForgetRequested,  // A person asked to forget a node, whatever its state.
  kResizeRequested,  // A person asked for another number of ranks.
  // Of the cloud, in its own mode (cloud_host.h).
  kCloudRefused,       // A call failed: no capacity, a quota, throttling, an error of the service.
  kCloudAnswerLost,    // A call was lost before or after its effect.
  kMachineVanished,    // Without notice, or after one.
  kMachineNeverBoots,  // It is there, and its worker never comes.
  kMachineNeverJoins,  // It has booted, and its worker cannot join.
  kMachineBootsLate,   // So late that the head may have given it up.
  kCount,
};
inline constexpr size_t kFaultCount = static_cast<size_t>(Fault::kCount);
const char* FaultName(Fault fault);

struct Histogram {
  std::array<uint64_t, kFaultCount> counts{};
  void Add(Fault fault) { ++counts[static_cast<size_t>(fault)]; }
  void Merge(const Histogram& other) {
    for (size_t i = 0; i < kFaultCount; ++i) counts[i] += other.counts[i];
  }
  uint64_t Total() const {
    uint64_t total = 0;
    for (uint64_t count : counts) total += count;
    for (Fault legal : {Fault::kStopRequested, Fault::kPauseRequested, Fault::kReopened,
                        Fault::kDrainRequested, Fault::kForgetRequested, Fault::kResizeRequested})
      total -= counts[static_cast<size_t>(legal)];
    return total;
  }
};

// Probabilities: of each message, of each second per node, of each second of the head, of each step
// of a program. Drawn per seed, so that some runs are calm in one respect and wild in another.
struct FaultPlan {
  double lost_before = 0, lost_during = 0, lost_after = 0, duplicated = 0, reordered = 0;
  double daemon_killed = 0, stopped_in_order = 0;
  double node_rebooted = 0, node_gone = 0, node_removed = 0, drained = 0;
  double daemon_stopped = 0, node_frozen = 0;
  double head_stopped = 0, head_crashed = 0, taken_over = 0;
  double clock_jumped = 0;  // Of each crash.
  double trial_hung = 0, trial_failed = 0, launch_failed = 0, checkpoint_broken = 0, gpu_sick = 0;
  double replica_gone = 0;  // Of each time that a holder asks.
  double stop_requested = 0;
  double paused = 0, reopened = 0, drain_requested = 0, forget_requested = 0;
  double driver_killed = 0;
  double model_slow = 0, model_silent = 0;  // Of each question to a search model.
  int64_t disconnect_stop = 0;  // Milliseconds; 0: workers wait for a head for ever.

  static FaultPlan Draw(Rng& rng);
  // For the mode of the cloud: the network, the head, daemons and machines.
  static FaultPlan DrawForCloud(Rng& rng);
};

}  // namespace rt::sim
