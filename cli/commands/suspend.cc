// `rt exp pause|resume|extend`, `rt trial pause|resume|retry`.
#include <cmath>

#include "cli/commands/acting.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

using Experiments = v1::ExperimentService;

}  // namespace

ExitCode RunExperimentPause(const Invocation& invocation) {
  const Action pause{"pause", "rt exp pause 3", "is being paused: its trials save and end"};
  return ActOnExperiments(invocation, pause, [&](HeadClient& client, uint64_t id) {
    v1::StopRequest request;
    request.set_experiment(id);
    request.set_reason(invocation.reason);
    return client.Call<Experiments>(&Experiments::Stub::Pause, request).status();
  });
}

ExitCode RunExperimentResume(const Invocation& invocation) {
  if (invocation.failed && invocation.from_scratch)
    return Invalid("--failed and --restart-failed exclude each other");
  const Action resume{"resume", "rt exp resume 3", "resumes"};
  return ActOnExperiments(invocation, resume, [&](HeadClient& client, uint64_t id) {
    v1::ResumeRequest request;
    request.set_experiment(id);
    request.set_failed(invocation.from_scratch ? 2 : invocation.failed);
    return client.Call<Experiments>(&Experiments::Stub::Resume, request).status();
  });
}

ExitCode RunExperimentExtend(const Invocation& invocation) {
  Millis time = 0;
  if (!invocation.time.empty()) {
    std::optional<double> seconds = ParseDurationSeconds(invocation.time);
    if (!seconds || *seconds <= 0)
      return Invalid("'" + invocation.time + "' is not a duration", "write 90m, 2h or 30s");
    time = static_cast<Millis>(std::llround(*seconds * 1000));
  }
  if (invocation.samples <= 0 && time == 0)
    return Invalid("nothing to extend: give --samples or --time",
                   "rt exp extend 3 --samples 8, or --time 30m");
  const Action extend{"extend", "rt exp extend 3 --samples 8", "is extended"};
  return ActOnExperiments(invocation, extend, [&](HeadClient& client, uint64_t id) {
    v1::ExtendRequest request;
    request.set_experiment(id);
    request.set_add_samples(invocation.samples);
    request.set_add_time_ms(time);
    return client.Call<Experiments>(&Experiments::Stub::Extend, request).status();
  });
}

ExitCode RunTrialPause(const Invocation& invocation) {
  const Action pause{"pause", "rt trial pause 1/4", "is being paused: it saves and ends"};
  return ActOnTrials(invocation, pause, [&](HeadClient& client, const v1::TrialRef& trial) {
    v1::StopTrialRequest request;
    *request.mutable_trial() = trial;
    request.set_reason(invocation.reason);
    return client.Call<Experiments>(&Experiments::Stub::PauseTrial, request).status();
  });
}

ExitCode RunTrialResume(const Invocation& invocation) {
  const Action resume{"resume", "rt trial resume 1/4", "resumes"};
  return ActOnTrials(invocation, resume, [&](HeadClient& client, const v1::TrialRef& trial) {
    return client.Call<Experiments>(&Experiments::Stub::ResumeTrial, trial).status();
  });
}

ExitCode RunTrialRetry(const Invocation& invocation) {
  const Action retry{"retry", "rt trial retry 1/4", "is tried again"};
  return ActOnTrials(invocation, retry, [&](HeadClient& client, const v1::TrialRef& trial) {
    v1::RetryTrialRequest request;
    *request.mutable_trial() = trial;
    request.set_from_scratch(invocation.from_scratch);
    return client.Call<Experiments>(&Experiments::Stub::RetryTrial, request).status();
  });
}

}  // namespace rt
