// The verbs of `rt`, one function each: they return the exit code, or the error that main prints.
#pragma once

#include "absl/status/statusor.h"
#include "cli/invocation.h"

namespace rt {

using ExitCode = absl::StatusOr<int>;

ExitCode RunUp(const Invocation& invocation);
ExitCode RunDown(const Invocation& invocation);
ExitCode RunStatus(const Invocation& invocation);
ExitCode RunSubmit(const Invocation& invocation);
ExitCode RunWatch(const Invocation& invocation);
ExitCode RunDoctor(const Invocation& invocation);
ExitCode RunPlan(const Invocation& invocation);
ExitCode RunLogs(const Invocation& invocation);
ExitCode RunBridge(const Invocation& invocation);
ExitCode RunCompletion(const Invocation& invocation);

ExitCode RunExperimentList(const Invocation& invocation);
ExitCode RunExperimentShow(const Invocation& invocation);
ExitCode RunExperimentStop(const Invocation& invocation);
ExitCode RunExperimentPause(const Invocation& invocation);
ExitCode RunExperimentResume(const Invocation& invocation);
ExitCode RunExperimentExtend(const Invocation& invocation);
ExitCode RunTrialPause(const Invocation& invocation);
ExitCode RunTrialResume(const Invocation& invocation);
ExitCode RunTrialRetry(const Invocation& invocation);
ExitCode RunTrialResize(const Invocation& invocation);
ExitCode RunExperimentBest(const Invocation& invocation);
ExitCode RunExperimentExport(const Invocation& invocation);
ExitCode RunExperimentDownload(const Invocation& invocation);
ExitCode RunTrialList(const Invocation& invocation);
ExitCode RunTrialShow(const Invocation& invocation);
ExitCode RunTrialStop(const Invocation& invocation);
ExitCode RunTrialLogs(const Invocation& invocation);
ExitCode RunTrialWhy(const Invocation& invocation);
ExitCode RunTrialCheckpoint(const Invocation& invocation);
ExitCode RunJobList(const Invocation& invocation);
ExitCode RunJobShow(const Invocation& invocation);
ExitCode RunJobStop(const Invocation& invocation);
ExitCode RunJobLogs(const Invocation& invocation);
ExitCode RunExecutorList(const Invocation& invocation);
ExitCode RunExecutorShow(const Invocation& invocation);
ExitCode RunExecutorStop(const Invocation& invocation);
ExitCode RunExecutorLogs(const Invocation& invocation);
ExitCode RunActorList(const Invocation& invocation);
ExitCode RunNodeList(const Invocation& invocation);
ExitCode RunNodeShow(const Invocation& invocation);
ExitCode RunNodeLogs(const Invocation& invocation);
ExitCode RunNodeWhy(const Invocation& invocation);
ExitCode RunNodeDrain(const Invocation& invocation);
ExitCode RunNodeUndrain(const Invocation& invocation);
ExitCode RunNodeForget(const Invocation& invocation);

ExitCode RunContextList(const Invocation& invocation);
ExitCode RunContextUse(const Invocation& invocation);
ExitCode RunContextAdd(const Invocation& invocation);
ExitCode RunContextRemove(const Invocation& invocation);
ExitCode RunTokenCreate(const Invocation& invocation);
ExitCode RunTokenList(const Invocation& invocation);
ExitCode RunTokenRevoke(const Invocation& invocation);

}  // namespace rt
