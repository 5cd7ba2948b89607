// `rt down [CLUSTER.yaml|NAME]`.
#include <cstdio>

#include "cli/client/archive.h"
#include "cli/cloud/cloud_cluster.h"
#include "cli/commands/acting.h"
#include "cli/commands/common.h"
#include "cli/hosts/host_cluster.h"
#include "cli/teardown.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/yaml/cluster_spec.h"

namespace rt {
namespace {

void SayDown(const std::string& name, const TornDown& down) {
  std::fprintf(stderr, "cluster '%s' is down%s\n", name.c_str(),
               down.purged ? "; its history was deleted" : "");
  for (const PlaceElsewhere& place : down.left)
    std::fprintf(stderr, "rt: not deleted: %s in %s%s%s\n", place.what.c_str(),
                 EscapeControl(place.url).c_str(),
                 place.how.empty() ? "" : "; no other cluster uses this place, so delete it with: ",
                 EscapeControl(place.how).c_str());
  if (down.archive.empty()) return;
  std::fprintf(stderr,
               "rt: its history is in %s: 'rt up' continues from there, 'rt down %s --purge' "
               "deletes it\n",
               down.archive.c_str(), name.c_str());
}

// A cluster given by its file may never have been up; one given by name must be known.
absl::StatusOr<std::string> ClusterToEnd(const Home& home, const Invocation& invocation) {
  std::string name = FirstWord(invocation);
  if (name.ends_with(".yaml") || name.ends_with(".yml") || name.find('/') != std::string::npos) {
    RT_ASSIGN_OR_RETURN(ClusterSpec spec, LoadCluster(name));
    if (spec.provider_type == "ssh" && !HostCluster::IsKnown(home, spec.cluster_name)) {
      RT_ASSIGN_OR_RETURN(HostCluster cluster, HostCluster::Make(home, spec));
      RT_RETURN_IF_ERROR(cluster.Attach());
    }
    if (spec.provider_type == "aws" && !home.IsUp(spec.cluster_name)) {
      RT_ASSIGN_OR_RETURN(CloudCluster cluster, CloudCluster::Make(home, spec));
      RT_RETURN_IF_ERROR(cluster.Attach(spec));
    }
    return spec.cluster_name;
  }
  if (name.empty()) name = home.Named(invocation.cluster);
  if (name.empty()) return home.Current();
  if (!Home::IsName(name)) return Invalid("'" + name + "' is not the name of a cluster");
  const bool known = Exists(home.ClusterDirectory(name)) || Exists(ArchiveDirectory(home, name));
  if (known) return name;
  const absl::Status unknown = UnknownCluster(home, name);
  return home.ClusterNames().empty() ? WithHint(unknown, "rt context list shows the known clusters")
                                     : unknown;
}

}  // namespace

ExitCode RunDown(const Invocation& invocation) {
  if (invocation.words.size() > 1) return Invalid("down takes one cluster", "rt down demo");
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  RT_ASSIGN_OR_RETURN(const std::string name, ClusterToEnd(home, invocation));
  if (name.empty()) {
    if (invocation.output == Output::kTable) std::fputs("rt: no cluster is up\n", stderr);
    return kExitOk;
  }
  if (!Home::IsName(name)) return Invalid("'" + name + "' is not the name of a cluster");
  if (Exists(home.ClusterDirectory(name) + "/context") && !HostCluster::IsKnown(home, name))
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
