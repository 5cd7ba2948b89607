#include "tests/sim/faults.h"

namespace rt::sim {

const char* FaultName(Fault fault) {
  switch (fault) {
    case Fault::kLostBefore: return "lost before the head saw it";
    case Fault::kLostDuring: return "connection broke during the call";
    case Fault::kLostAfter: return "answer lost";
    case Fault::kDuplicated: return "delivered twice";
    case Fault::kReordered: return "delivered late";
    case Fault::kDaemonKilled: return "worker daemon killed";
    case Fault::kStoppedInOrder: return "worker daemon stopped in order";
    case Fault::kNodeRebooted: return "node rebooted";
    case Fault::kRunsForgotten: return "  of these, without its run folders";
    case Fault::kNodeReplaced: return "node came back empty";
    case Fault::kNodeGone: return "node gone for good";
    case Fault::kNodeRemoved: return "node removed by a person";
    case Fault::kNodeDrained: return "preemption notice";
    case Fault::kNoticeTrue: return "  of these, the node went";
    case Fault::kDaemonStopped: return "daemon stopped for a while";
    case Fault::kNodeFrozen: return "node stood still";
    case Fault::kHeadStopped: return "head stopped for a while";
    case Fault::kClockJumped: return "wall clock set while head was down";
    case Fault::kHeadCrashed: return "head crashed, nothing in flight";
    case Fault::kHeadCrashedBusy: return "head crashed, batches in flight";
    case Fault::kBatchesLost: return "  of these, batches were lost";
    case Fault::kTakenOver: return "a standby took over";
    case Fault::kOldHeadAnswered: return "  the head before still answered";
    case Fault::kOldHeadFenced: return "  the head before was fenced";
    case Fault::kDriverKilled: return "asked driver killed";
    case Fault::kModelSlow: return "search model gave up";
    case Fault::kModelLate: return "search model answered late";
    case Fault::kModelSilent: return "search model never answered";
    case Fault::kModelOverdue: return "  the head continued without it";
    case Fault::kTrialHung: return "program hung";
    case Fault::kTrialFailed: return "program failed, daemon saw it";
    case Fault::kExitUnseen: return "program ended unseen";
    case Fault::kLaunchFailed: return "launch failed";
    case Fault::kCheckpointBroken: return "checkpoint could not be restored";
    case Fault::kReplicaGone: return "replica of a checkpoint rotted on its node";
    case Fault::kHeadAway: return "worker without a head ended its work";
    case Fault::kGpuSick: return "gpu fell off its bus";
    case Fault::kProbedAtFault: return "probe found a sick gpu";
    case Fault::kPreflightFailed: return "preflight found a sick gpu";
    case Fault::kPreflightBroken: return "preflight could not be made";
    case Fault::kLinkSlow: return "preflight found a slow link";
    case Fault::kFreezeFailed: return "program could not be frozen";
    case Fault::kThawFailed: return "frozen program could not continue";
    case Fault::kFrozenKilled: return "frozen program killed";
    case Fault::kStopRequested: return "person asked to stop";
    case Fault::kPauseRequested: return "person paused";
    case Fault::kReopened: return "person extended, resumed or retried";
    case Fault::kDrainRequested: return "person drained a node";
    case Fault::kForgetRequested: return "person asked to forget a node";
    case Fault::kResizeRequested: return "person resized a trial";
    case Fault::kCloudRefused: return "cloud refused a call";
    case Fault::kCloudAnswerLost: return "cloud's answer lost";
    case Fault::kMachineVanished: return "machine vanished";
    case Fault::kMachineNeverBoots: return "machine never booted";
    case Fault::kMachineNeverJoins: return "machine never joined";
    case Fault::kMachineBootsLate: return "machine booted late";
    case Fault::kCount: break;
  }
  return "?";
}

FaultPlan FaultPlan::Draw(Rng& rng) {
  // Each kind is off in about half of the seeds.
  auto upto = [&](double most) { return rng.Chance(0.5) ? rng.Uniform() * most : 0.0; };
  FaultPlan plan;
  plan.lost_before = upto(0.25);
  plan.lost_during = upto(0.15);
  plan.lost_after = upto(0.25);
  plan.duplicated = upto(0.25);
  plan.reordered = upto(0.25);
  plan.daemon_killed = upto(0.12);
  plan.stopped_in_order = upto(0.08);
  plan.node_rebooted = upto(0.08);
  plan.node_gone = upto(0.03);
  plan.node_removed = upto(0.02);
  plan.drained = upto(0.08);
  plan.daemon_stopped = upto(0.10);
  plan.node_frozen = upto(0.08);
  plan.head_stopped = upto(0.15);
  plan.head_crashed = upto(0.40);
  plan.clock_jumped = upto(0.50);
  plan.trial_hung = upto(0.04);
  plan.trial_failed = upto(0.08);
  plan.launch_failed = upto(0.08);
  plan.gpu_sick = upto(0.03);
  plan.stop_requested = upto(0.10);
  plan.paused = upto(0.20);
  plan.reopened = upto(0.20);
  plan.driver_killed = upto(0.15);
  plan.drain_requested = upto(0.15);
  plan.forget_requested = upto(0.2);
  plan.taken_over = upto(0.15);
  plan.checkpoint_broken = upto(0.10);
  plan.replica_gone = upto(0.02);
  plan.model_slow = upto(0.30);
  plan.model_silent = upto(0.10);
  if (rng.Chance(0.5)) plan.disconnect_stop = 1'000 + static_cast<int64_t>(rng.Below(7'000));
  return plan;
}

FaultPlan FaultPlan::DrawForCloud(Rng& rng) {
  auto upto = [&](double most) { return rng.Chance(0.5) ? rng.Uniform() * most : 0.0; };
  FaultPlan plan;
  plan.lost_before = upto(0.2);
  plan.lost_during = upto(0.1);
  plan.lost_after = upto(0.2);
  plan.duplicated = upto(0.2);
  plan.daemon_killed = upto(0.05);
  plan.node_frozen = upto(0.05);
  plan.head_stopped = upto(0.15);
  plan.head_crashed = upto(0.40);
  plan.taken_over = upto(0.15);
  plan.clock_jumped = upto(0.50);
  plan.trial_failed = upto(0.05);
  plan.launch_failed = upto(0.05);
  plan.stop_requested = upto(0.10);
  return plan;
}

}  // namespace rt::sim
