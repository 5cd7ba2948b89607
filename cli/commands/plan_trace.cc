// `rt plan --elastic TRACE [--nodes N] [--gpus-per-node N]`: replays a trace of elastic jobs on a
// cluster that does not exist, with the policies that the head has.
#include "cli/commands/plan_trace.h"

#include <cstdio>

#include "cli/elastic_trace.h"
#include "cli/render/table.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr int kNodesMax = 1'024, kSlotsMax = 64;

Json ToJson(const ReplayedJob& job) {
  return Json::MakeObject({{"name", job.name},
                           {"completion_s", job.completion_s},
                           {"ended_s", job.ended_s},
                           {"restarts", job.restarts},
                           {"gpu_s", job.rank_seconds}});
}

Json ToJson(const ElasticPolicy& policy, const ReplayResult& result) {
  Json jobs = Json::MakeArray();
  for (const ReplayedJob& job : result.jobs) jobs.Append(ToJson(job));
  return Json::MakeObject({{"policy", std::string(policy.name())},
                           {"mean_completion_s", result.mean_s},
                           {"p99_completion_s", result.worst_percent_s},
                           {"makespan_s", result.makespan_s},
                           {"restarts_per_job", result.restarts},
                           {"gpu_hours_per_job", result.rank_hours},
                           {"jobs", std::move(jobs)}});
}

std::string Rounded(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string Render(const Json& policies) {
  Table table({"POLICY", "MEAN COMPLETION", "99 %", "MAKESPAN", "RESTARTS", "GPU HOURS"});
  for (const Json& one : policies.array())
    table.Add({one.GetString("policy"), Rounded(one.GetDouble("mean_completion_s"), 0) + " s",
               Rounded(one.GetDouble("p99_completion_s"), 0) + " s",
               Rounded(one.GetDouble("makespan_s") / 3'600, 2) + " h",
               Rounded(one.GetDouble("restarts_per_job"), 1),
               Rounded(one.GetDouble("gpu_hours_per_job"), 2)});
  return table.Render();
}

}  // namespace

ExitCode RunPlanOfTrace(const Invocation& invocation) {
  if (invocation.nodes < 1 || invocation.nodes > kNodesMax || invocation.slots < 1 ||
      invocation.slots > kSlotsMax)
    return Invalid("a cluster of a replay has 1 to " + std::to_string(kNodesMax) +
                       " nodes with 1 to " + std::to_string(kSlotsMax) + " gpus each",
                   "--nodes 16 --gpus-per-node 4");
  RT_ASSIGN_OR_RETURN(const ElasticTrace trace, ReadElasticTrace(FirstWord(invocation)));
  ReplayRules rules;
  rules.cluster = {static_cast<size_t>(invocation.nodes), static_cast<size_t>(invocation.slots)};
  Json policies = Json::MakeArray();
  for (const ElasticPolicy* policy : {&CostatePolicy(), &EqualSplit()}) {
    RT_ASSIGN_OR_RETURN(const ReplayResult result,
                        Replay(trace.workload, trace.applications, rules,
                               [&](std::map<std::string, ReplayClass>& classes) {
                                 return MakeElasticScheduler(*policy, rules, classes);
                               }));
    policies.Append(ToJson(*policy, result));
  }
  if (invocation.output != Output::kJson) {
    std::fputs(Render(policies).c_str(), stdout);
    return kExitOk;
  }
  PrintJson(Json::MakeObject({{"schema", 1},
                              {"trace", FirstWord(invocation)},
                              {"nodes", invocation.nodes},
                              {"gpus_per_node", invocation.slots},
                              {"policies", std::move(policies)}}));
  return kExitOk;
}

}  // namespace rt
