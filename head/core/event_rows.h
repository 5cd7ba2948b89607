// The rows of the table of events (event_table.h): one function for each type, which says what an
// event of that type means. Besides event_table.cc two files include it: whoever writes what
// drivers read (head/service/questions.cc), and tests/seams. Pure.
#pragma once

#include <type_traits>
#include <utility>

#include "common/base/overloaded.h"
#include "head/core/event_table.h"

namespace rt::event_rows {

// The answer of a row whose events no driver reads.
struct M {
  std::vector<Owner> owners;
  bool invites_placement = false;

  operator EventMeaning() && {  // NOLINT(google-explicit-constructor)
    return {std::move(owners), invites_placement, {}};
  }
};
// The answer of a row whose events a driver may read.
using Read = EventMeaning;

inline DriverReader DriverOf(const Owner& owner) {
  if (!owner.is_trial()) return {};
  return {.experiment = owner.trial().experiment};
}

// Rows of other ranks, and batches of which no row was kept, decide nothing.
inline DriverReader DriverOf(const event::ReportsAccepted& event) {
  return event.rank == 0 && event.count > 0 ? DriverOf(event.attempt.owner) : DriverReader{};
}

inline Read ReadBy(const TrialId& trial) { return {.reader = {trial.experiment}}; }
inline M Owned(const Owner& owner) { return {.owners = {owner}}; }

inline Read MeaningOfAnswer(const event::Answered& e) {
  Read meaning{.invites_placement = !e.created.empty() || !e.resumed.empty()};
  for (const StoppedTrial& stopped : e.stopped)
    meaning.owners.push_back(Owner::Of(TrialId{e.experiment, stopped.number}));
  for (const SuspendedTrial& paused : e.paused)
    meaning.owners.push_back(Owner::Of(TrialId{e.experiment, paused.number}));
  for (const ClonedTrial& clone : e.cloned)
    meaning.owners.push_back(Owner::Of(TrialId{e.experiment, clone.number}));
  // A driver reads of the trials that it created itself, of those that are resumed, and of clones
  // that it is asked about. If it read its other answers, it would answer each of them.
  if (meaning.invites_placement || !e.asked.empty()) meaning.reader = {e.experiment};
  else if (e.session != 0) meaning.reader = {e.experiment, e.session};
  return meaning;
}

inline const auto kCluster = Overloaded{
    [](const event::HeadStarted&) { return M{}; },
    [](const event::HeadRolledBack&) { return M{}; },
    [](const event::TokenCreated&) { return M{}; },
    [](const event::TokenUsed&) { return M{}; },
    [](const event::TokenRevoked&) { return M{}; },
    [](const event::NodeJoined&) { return M{}; },
    [](const event::NodeReady&) { return M{.invites_placement = true}; },
    [](const event::NodeAway&) { return M{}; },
    [](const event::NodeLost&) { return M{.invites_placement = true}; },
    // A node that goes leaves those that avoid another one (AvoidedBy) without a choice.
    [](const event::NodeDraining&) { return M{.invites_placement = true}; },
    [](const event::NodeResumed&) { return M{.invites_placement = true}; },
    [](const event::GpuCleared&) { return M{}; },
    [](const event::GpuFaultFound&) { return M{}; },
    // It may carry more than before.
    [](const event::LinkFoundSlow&) { return M{.invites_placement = true}; },
    [](const event::LinkCleared&) { return M{.invites_placement = true}; },
    [](const event::LinkRetried&) { return M{}; },
    [](const event::NodeGone&) { return M{.invites_placement = true}; },
};

inline const auto kMachines = Overloaded{
    [](const event::MachinesRequested&) { return M{}; },
    [](const event::MachinesCreated&) { return M{}; },
    [](const event::MachinesFailed&) { return M{}; },
    [](const event::MachineReleased&) { return M{}; },
    [](const event::MachineDeleted&) { return M{}; },
    [](const event::ResourcesRequested&) { return M{}; },
};

inline const auto kExperiments = Overloaded{
    [](const event::ExperimentCreated&) { return M{}; },
    [](const event::ExperimentStopRequested&) { return M{}; },
    [](const event::ExperimentFinishing& e) { return Read{.reader = {e.experiment}}; },
    [](const event::ExperimentFinished&) { return M{}; },
    [](const event::ExperimentPaused&) { return M{}; },
    [](const event::ExperimentResumed&) { return M{.invites_placement = true}; },
    [](const event::ExperimentExtended&) { return M{}; },
    [](const event::ExperimentReopened&) { return M{}; },
    [](const event::StopKeyReported&) { return M{}; },
    [](const event::DriverAttached&) { return M{}; },
    // A driver that read its own answers would answer each of them.
    [](const event::DriverAnswered& e) {
      return Read{.reader = {e.experiment, e.session}};
    },
    [](const event::SearchFinished&) { return M{}; },
    [](const event::Answered& e) { return MeaningOfAnswer(e); },
    [](const event::RungRecorded&) { return M{}; },
};

inline const auto kTrials = Overloaded{
    [](const event::TrialCreated& e) {
      return Read{.invites_placement = true, .reader = {e.trial.experiment}};
    },
    [](const event::TrialStopRequested& e) { return Owned(Owner::Of(e.trial)); },
    [](const event::TrialEnded& e) { return ReadBy(e.trial); },
    [](const event::TrialPaused& e) { return Owned(Owner::Of(e.trial)); },
    [](const event::TrialResumed& e) {
      return Read{.invites_placement = true, .reader = {e.trial.experiment}};
    },
    [](const event::TrialReallocated& e) {
      return Read{.invites_placement = true, .reader = {e.trial.experiment}};
    },
    [](const event::TrialRetried& e) {
      return Read{.invites_placement = true, .reader = {e.trial.experiment}};
    },
    [](const event::JobSubmitted&) { return M{.invites_placement = true}; },
    [](const event::JobStopRequested& e) { return Owned(Owner::Of(e.job)); },
    [](const event::JobEnded&) { return M{}; },
    [](const event::ExecutorRequested&) { return M{.invites_placement = true}; },
    [](const event::ExecutorReleaseRequested& e) { return Owned(Owner::Of(e.executor)); },
    [](const event::ExecutorDelayed& e) { return M{.invites_placement = e.until == 0}; },
    [](const event::ExecutorEnded&) { return M{}; },
};

inline const auto kAttempts = Overloaded{
    [](const event::AttemptPlaced& e) { return Owned(e.attempt.owner); },
    [](const event::AttemptStarted& e) { return Read{.reader = DriverOf(e.attempt.owner)}; },
    [](const event::AttemptEnded& e) {
      return Read{{e.attempt.owner}, /*invites_placement=*/true, DriverOf(e.attempt.owner)};
    },
    [](const event::PreemptionRequested& e) { return Owned(e.attempt.owner); },
    [](const event::PortAgreed& e) { return Owned(e.attempt.owner); },
    [](const event::AttemptResizeRequested& e) { return Owned(e.attempt.owner); },
    [](const event::AttemptFreezeRequested& e) { return Owned(e.attempt.owner); },
    [](const event::AttemptFrozen& e) {
      return M{.owners = {e.attempt.owner}, .invites_placement = true};
    },
    [](const event::AttemptThawed& e) { return Owned(e.attempt.owner); },
    [](const event::AttemptFreezeGivenUp& e) { return Owned(e.attempt.owner); },
    [](const event::AttemptResizeForced& e) { return Owned(e.attempt.owner); },
    [](const event::AttemptResizeGivenUp& e) {
      return M{.owners = {e.attempt.owner}, .invites_placement = true};
    },
    [](const event::AttemptResized& e) {
      return M{.owners = {e.attempt.owner}, .invites_placement = true};
    },
    [](const event::ProfileRecorded& e) { return Owned(e.attempt.owner); },
    [](const event::SizesAnswered&) { return M{}; },
    [](const event::RankExited& e) { return Owned(e.attempt.owner); },
    [](const event::ReportsAccepted& e) { return Read{.reader = DriverOf(e)}; },
    [](const event::CheckpointShardCommitted&) { return M{}; },
    [](const event::CheckpointCommitted& e) { return Read{.reader = DriverOf(e.attempt.owner)}; },
    [](const event::CheckpointStored&) { return M{}; },
    [](const event::CheckpointReplicaLost&) { return M{}; },
    [](const event::CheckpointReleased&) { return M{}; },
    [](const event::CheckpointRetired&) { return M{}; },
    [](const event::OutputsKept&) { return M{}; },
};

inline const auto kAll = Overloaded{kCluster, kMachines, kExperiments, kTrials, kAttempts};

// Whether a driver may read events of the type.
template <class E>
inline constexpr bool kIsRead =
    std::is_same_v<std::invoke_result_t<decltype(kAll), const E&>, Read>;

}  // namespace rt::event_rows
