// `rt down [CLUSTER.yaml|NAME]`.
#include <cstdio>

#include "cli/commands/acting.h"
#include "cli/commands/common.h"
#include "cli/teardown.h"
#include "common/base/status.h"
#include "common/run/files.h"
#include "common/yaml/cluster_spec.h"

namespace rt {
namespace {

void SayDown(const std::string& name, const TornDown& down) {
  std::fprintf(stderr, "cluster '%s' is down\n", name.c_str());
  if (down.archive.empty()) return;
  std::fprintf(stderr,
               "rt: its history is in %s: 'rt up' continues from there, 'rt down %s --purge' "
               "deletes it\n",
               down.archive.c_str(), name.c_str());
}

}  // namespace

ExitCode RunDown(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  std::string name = FirstWord(invocation);
  if (name.ends_with(".yaml") || name.ends_with(".yml") || name.find('/') != std::string::npos) {
    RT_ASSIGN_OR_RETURN(ClusterSpec spec, LoadCluster(name));
    name = spec.cluster_name;
  }
  if (name.empty()) name = invocation.cluster;
  if (name.empty()) name = home.Current();
  if (name.empty()) return kExitOk;  // Nothing runs.
  if (!Home::IsName(name)) return Invalid("'" + name + "' is not the name of a cluster");
  if (Exists(home.ClusterDirectory(name) + "/context"))
    return Invalid("'" + name + "' is the context of a cluster elsewhere",
                   "run 'rt down' where that cluster was started");
  RT_ASSIGN_OR_RETURN(TornDown down,
                      TearDown(home, name, {.download = !invocation.no_download,
                                            .purge = invocation.purge,
                                            .results_root = ResultsRoot()}));
  if (invocation.output == Output::kTable) SayDown(name, down);
  PrintCluster(invocation, name, "DOWN", std::move(down.ended));
  return kExitOk;
}

}  // namespace rt
