// `rt plan FILE`: what an experiment or a cluster YAML would start; nothing is started.
#include "cli/render/plan.h"

#include <cstdio>

#include "cli/cloud/aws_file.h"
#include "cli/commands/common.h"
#include "cli/commands/plan_trace.h"
#include "cli/commands/up.h"
#include "cli/render/plan_space.h"
#include "cli/written.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/yaml/experiment_file.h"

namespace rt {
namespace {

// The nodes of the cluster that it would run on; null when none was named and none is current.
absl::StatusOr<Json> NodesOf(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  absl::StatusOr<std::string> name = home.Choose(invocation.cluster);
  if (!name.ok()) return invocation.cluster.empty() ? absl::StatusOr<Json>(Json()) : name.status();
  RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, *name));
  RT_ASSIGN_OR_RETURN(Json nodes, ListNodes(*client));
  return nodes["items"];
}

absl::StatusOr<Json> PlanOf(const Invocation& invocation, const YamlDocument& document) {
  switch (KindOf(document)) {
    case YamlKind::kCluster: {
      RT_ASSIGN_OR_RETURN(ClusterSpec spec, LoadCluster(document));
      if (spec.provider_type == "aws") RT_RETURN_IF_ERROR(ReadAwsFile(spec).status());
      return PlanCluster(spec, CpuCount());
    }
    case YamlKind::kExperiment: {
      RT_ASSIGN_OR_RETURN(ExperimentFile file, LoadExperiment(document));
      RT_ASSIGN_OR_RETURN(Json nodes, NodesOf(invocation));
      RT_RETURN_IF_ERROR(CheckResources(file, nodes));
      Json plan = PlanExperiment(file.spec, nodes);
      plan.Set("space", PlanSpace(file.spec.space));
      Json notes = Json::MakeArray();
      for (const std::string& note : NotesFor(file, nodes)) notes.Append(note);
      plan.Set("notes", std::move(notes));
      return plan;
    }
    case YamlKind::kOther:
      break;
  }
  return document.At(Invalid("neither an experiment nor a cluster",
                             "an experiment has the key 'experiment', a cluster 'cluster_name'"),
                     "");
}

}  // namespace

ExitCode RunPlan(const Invocation& invocation) {
  if (invocation.words.size() != 1)
    return Invalid("name the file of an experiment or a cluster", "rt plan search.yaml");
  if (invocation.trace) return RunPlanOfTrace(invocation);
  const std::string file(FirstWord(invocation));
  if (file.ends_with(".py"))
    return Invalid("'" + Excerpt(file) + "' is a script; a plan is made of a YAML file",
                   "rt exp show says what the search of a script chose");
  RT_ASSIGN_OR_RETURN(YamlDocument document, ParseYamlFile(file));
  RT_ASSIGN_OR_RETURN(Json plan, PlanOf(invocation, document));
  if (invocation.output == Output::kJson) PrintJson(plan);
  else std::fputs(RenderPlan(plan).c_str(), stdout);
  return kExitOk;
}

}  // namespace rt
