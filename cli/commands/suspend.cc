// `rt exp pause|resume|extend`, `rt trial pause|resume|retry`.
#include <cmath>
#include <cstdio>

#include "cli/commands/common.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

using Experiments = v1::ExperimentService;

template <class Do>
ExitCode ForExperiments(const Invocation& invocation, const char* example, const char* said,
                        Do&& act) {
  if (invocation.words.empty()) return Invalid("which experiment?", example);
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, SelectorOf(invocation)));
  for (uint64_t id : chosen) {
    RT_RETURN_IF_ERROR(act(*client, id));
    std::fprintf(stderr, "experiment %llu %s\n", static_cast<unsigned long long>(id), said);
  }
  return kExitOk;
}

template <class Do>
ExitCode ForTrials(const Invocation& invocation, const char* example, const char* said, Do&& act) {
  if (invocation.words.empty()) return Invalid("which trial?", example);
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<TrialId> chosen, ChooseTrials(*client, SelectorOf(invocation)));
  for (TrialId id : chosen) {
    v1::TrialRef ref;
    ref.set_experiment(id.experiment.value);
    ref.set_number(id.number);
    RT_RETURN_IF_ERROR(act(*client, ref));
    std::fprintf(stderr, "trial %s %s\n", ToString(id).c_str(), said);
  }
  return kExitOk;
}

std::string ReasonOf(const Invocation& invocation) {
  return invocation.reason.empty() ? "by a person" : invocation.reason;
}

}  // namespace

ExitCode RunExperimentPause(const Invocation& invocation) {
  return ForExperiments(
      invocation, "rt exp pause 3", "is being paused: its trials save and end",
      [&](HeadClient& client, uint64_t id) {
        v1::StopRequest request;
        request.set_experiment(id);
        request.set_reason(ReasonOf(invocation));
        return client.Call<Experiments>(&Experiments::Stub::Pause, request).status();
      });
}

ExitCode RunExperimentResume(const Invocation& invocation) {
  if (invocation.failed && invocation.from_scratch)
    return Invalid("--failed and --restart-failed exclude each other");
  return ForExperiments(invocation, "rt exp resume 3", "goes on",
                        [&](HeadClient& client, uint64_t id) {
                          v1::ResumeRequest request;
                          request.set_experiment(id);
                          request.set_failed(invocation.from_scratch ? 2 : invocation.failed);
                          return client.Call<Experiments>(&Experiments::Stub::Resume, request)
                              .status();
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
    return Invalid("by what?", "rt exp extend 3 --samples 8, or --time 30m");
  return ForExperiments(invocation, "rt exp extend 3 --samples 8", "is extended",
                        [&](HeadClient& client, uint64_t id) {
                          v1::ExtendRequest request;
                          request.set_experiment(id);
                          request.set_add_samples(invocation.samples);
                          request.set_add_time_ms(time);
                          return client.Call<Experiments>(&Experiments::Stub::Extend, request)
                              .status();
                        });
}

ExitCode RunTrialPause(const Invocation& invocation) {
  return ForTrials(invocation, "rt trial pause 1/4", "is being paused: it saves and ends",
                   [&](HeadClient& client, const v1::TrialRef& ref) {
                     v1::StopTrialRequest request;
                     *request.mutable_trial() = ref;
                     request.set_reason(ReasonOf(invocation));
                     return client.Call<Experiments>(&Experiments::Stub::PauseTrial, request)
                         .status();
                   });
}

ExitCode RunTrialResume(const Invocation& invocation) {
  return ForTrials(invocation, "rt trial resume 1/4", "goes on",
                   [&](HeadClient& client, const v1::TrialRef& ref) {
                     return client.Call<Experiments>(&Experiments::Stub::ResumeTrial, ref).status();
                   });
}

ExitCode RunTrialRetry(const Invocation& invocation) {
  return ForTrials(invocation, "rt trial retry 1/4", "is tried again",
                   [&](HeadClient& client, const v1::TrialRef& ref) {
                     v1::RetryTrialRequest request;
                     *request.mutable_trial() = ref;
                     request.set_from_scratch(invocation.from_scratch);
                     return client.Call<Experiments>(&Experiments::Stub::RetryTrial, request)
                         .status();
                   });
}

}  // namespace rt
