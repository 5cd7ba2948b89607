// `rt up CLUSTER.yaml`.
#include "cli/commands/up.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/bring_home.h"
#include "cli/client/archive.h"
#include "cli/client/local_cluster.h"
#include "cli/cloud/cloud_cluster.h"
#include "cli/commands/acting.h"
#include "cli/hosts/host_cluster.h"
#include "cli/render/spans.h"
#include "cli/teardown.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "common/run/start_failure.h"

namespace rt {
namespace {

constexpr Millis kReadyMax = 60'000;
// A worker may fail a few times because its predecessor has not ended yet. The head starts it anew
// some ten times in this span; what still fails then has another reason.
constexpr Millis kFailingMax = 3'000;
constexpr Millis kClientLease = 60'000;

absl::StatusOr<size_t> ReadyNodes(HeadClient& client) {
  RT_ASSIGN_OR_RETURN(Json reply, client.Ask<v1::ClusterService>(
                                      &v1::ClusterService::Stub::ListNodes, v1::Empty()));
  size_t ready = 0;
  if (const Json* items = reply.Find("items"); items != nullptr && items->is_array())
    for (const Json& item : items->array()) ready += item.GetString("state") == "READY" ? 1 : 0;
  return ready;
}

// What a worker daemon of the cluster said when it ended instead of serving; OK: none has.
absl::Status WhyNotReady(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("worker-")) continue;
    absl::Status why = ReadStartFailure(entry.path().string());
    if (!why.ok()) return Annotate(why, name + " does not start");
  }
  return absl::OkStatus();
}

absl::Status WaitReady(HeadClient& client, const std::string& directory, size_t wanted) {
  Millis deadline = SteadyClock() + kReadyMax, failing_since = 0;
  while (true) {
    RT_ASSIGN_OR_RETURN(size_t ready, ReadyNodes(client));
    if (ready >= wanted) return absl::OkStatus();
    absl::Status why = WhyNotReady(directory);
    if (why.ok()) failing_since = 0;
    else if (failing_since == 0) failing_since = SteadyClock();
    else if (SteadyClock() - failing_since > kFailingMax) return why;
    if (SteadyClock() > deadline)
      return WithHint(absl::DeadlineExceededError(
                          ToAbsl("only " + std::to_string(ready) + " of " +
                                 Counted(wanted, "worker is", "workers are") + " READY")),
                      "see 'rt node list' and the log files below RT_HOME/clusters");
    SleepFor(30);
  }
}

}  // namespace

// The part of the head's configuration that the provider does not read, as in cluster.yaml.
static Json ConfigOf(const ClusterSpec& spec, const std::optional<PoolShape>& pool) {
  Json config = Json::MakeObject({{"journal", spec.journal},
                                  {"checkpoint_store", spec.checkpoint_store},
                                  {"elastic", spec.elastic}});
  if (!pool.has_value()) return config;
  Json shape = Json::MakeObject({{"name", pool->name},
                                 {"resources", pool->resources},
                                 {"min_workers", pool->min_workers},
                                 {"max_workers", pool->max_workers},
                                 {"idle_timeout_s", pool->idle_timeout_s},
                                 {"upscaling_speed", pool->upscaling_speed}});
  Json pools = Json::MakeArray();
  pools.Append(std::move(shape));
  config.Set("pools", std::move(pools));
  config.Set("autoscaling", spec.autoscaling);
  return config;
}

int CpuCount() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Starts a cluster on hosts or in a cloud with `up`, which returns a report. A start that failed is
// undone, unless the head runs: a cluster that only lacks workers stays up.
template <class Cluster, class Up>
static absl::StatusOr<UpResult> UpOrUndo(const Home& home, const std::string& name,
                                         const UpOptions& options, Cluster& cluster, const Up& up) {
  UpResult result{.started = !home.IsUp(name)};
  absl::StatusOr<HostCluster::UpReport> report = up();
  const bool is_up = home.IsUp(name);
  if (!report.ok() && result.started && !is_up)
    if (const absl::Status undone = cluster.Undo(); !undone.ok())
      SayLines("", {MessageOf(undone), HintOf(undone)});
  if (is_up && options.make_current) RT_RETURN_IF_ERROR(home.SetCurrent(name));
  if (!report.ok()) return report.status();
  SayLines("", report->faults);
  result.workers = report->ready;
  return result;
}

static absl::StatusOr<UpResult> BringUpHosts(const Home& home, const ClusterSpec& spec,
                                             const UpOptions& options) {
  RT_ASSIGN_OR_RETURN(HostCluster cluster, HostCluster::Make(home, spec));
  return UpOrUndo(home, spec.cluster_name, options, cluster, [&] { return cluster.Up(spec); });
}

// A client is gone when it has not called for a minute, or for --keep when that is shorter.
static Json UnattendedOf(const UpOptions& options) {
  if (!options.keep.has_value()) return Json();
  const Millis lease = options.is_attended ? std::min(kClientLease, *options.keep) : *options.keep;
  const Millis keep = options.is_attended ? *options.keep : 0;
  Json rules = Json::MakeObject({{"lease_s", static_cast<double>(lease) / 1'000},
                                 {"keep_s", static_cast<double>(keep) / 1'000}});
  if (options.stops_work) rules.Set("stop_work", true);  // An older head does not know the key.
  return rules;
}

static absl::StatusOr<UpResult> BringUpCloud(const Home& home, const ClusterSpec& spec,
                                             const UpOptions& options) {
  RT_ASSIGN_OR_RETURN(CloudCluster cluster, CloudCluster::Make(home, spec));
  RT_ASSIGN_OR_RETURN(UpResult result, UpOrUndo(home, spec.cluster_name, options, cluster, [&] {
                        return cluster.Up(spec, UnattendedOf(options));
                      }));
  int most = 0;
  for (const NodePool& pool : spec.pools) most += pool.max_workers;
  // The worker of the head's machine is one more.
  result.workers_max = 1 + static_cast<size_t>(std::min(most, spec.max_workers));
  return result;
}

static absl::StatusOr<UpResult> BringUpLocal(const Home& home, const ClusterSpec& spec,
                                             const UpOptions& options) {
  const std::string overcommit = OvercommitWarning(spec, CpuCount());
  if (!overcommit.empty()) std::fprintf(stderr, "rt: warning: %s\n", overcommit.c_str());
  std::string directory = home.ClusterDirectory(spec.cluster_name);
  if (Exists(directory + "/context"))
    return absl::AlreadyExistsError(
        ToAbsl("'" + spec.cluster_name + "' is the context of a cluster elsewhere"));
  LocalCluster cluster(directory);
  RT_ASSIGN_OR_RETURN(const bool continues, TakeFromArchive(home, spec.cluster_name));
  const std::optional<PoolShape> pool = LocalPool(spec, CpuCount());
  std::vector<WorkerShape> workers;
  if (!pool.has_value()) workers = LocalWorkers(spec, CpuCount());
  const size_t wanted = pool.has_value() ? static_cast<size_t>(pool->min_workers) : workers.size();
  UpResult result{
      .started = !home.IsUp(spec.cluster_name), .workers = wanted, .continues = continues};
  if (pool.has_value()) result.workers_max = static_cast<size_t>(pool->max_workers);
  RT_RETURN_IF_ERROR(cluster.Configure(spec.cluster_name, workers, ConfigOf(spec, pool)));
  for (const WorkerShape& worker : workers)  // What an earlier daemon failed of.
    ClearStartFailure(directory + "/" + worker.name);
  RT_RETURN_IF_ERROR(WriteFileAtomic(directory + "/up", "", {}));
  if (options.make_current) RT_RETURN_IF_ERROR(home.SetCurrent(spec.cluster_name));
  auto ready = [&]() -> absl::Status {
    RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, spec.cluster_name));
    return WaitReady(*client, directory, wanted);
  };
  absl::Status status = ready();
  if (status.ok()) return result;
  // A half started cluster is taken down again.
  if (result.started) UndoBringUp(home, spec.cluster_name, continues).IgnoreError();
  return status;
}

absl::StatusOr<std::optional<Millis>> ReadKeep(const Invocation& invocation) {
  if (invocation.keep.empty()) return std::optional<Millis>();
  const std::optional<double> seconds = ParseDurationSeconds(invocation.keep);
  if (!seconds.has_value() || *seconds < 1 || *seconds * 1'000 > limits::kDrainMax)
    return Invalid("--keep: not a time between 1 s and 30 days: " + invocation.keep, "--keep 24h");
  return std::optional<Millis>(static_cast<Millis>(*seconds * 1'000));
}

absl::StatusOr<UpResult> BringUp(const Home& home, const ClusterSpec& spec,
                                 const UpOptions& options) {
  const std::vector<std::string> supported = {"local", "ssh", "aws"};
  if (std::find(supported.begin(), supported.end(), spec.provider_type) == supported.end())
    return WithHint(absl::UnimplementedError(
                        ToAbsl("provider '" + spec.provider_type +
                               "' is not supported yet; this release starts clusters on this "
                               "machine, on hosts that it reaches with ssh, and on EC2")),
                    "use 'provider: {type: local}', type ssh with a list of hosts, or type aws");
  for (const std::string& warning : spec.warnings)
    std::fprintf(stderr, "rt: warning: %s\n", warning.c_str());
  if (spec.provider_type == "aws") return BringUpCloud(home, spec, options);
  if (options.keep.has_value() && !options.is_attended)
    return Invalid("--keep is for a cluster in a cloud, whose machines are paid for",
                   "leave it out; 'rt down' ends this cluster");
  if (spec.provider_type == "ssh") return BringUpHosts(home, spec, options);
  return BringUpLocal(home, spec, options);
}

void SayContinues(const std::string& name) {
  std::fprintf(stderr, "rt: cluster '%s' continues from its archive\n",
               name.c_str());
}

ExitCode RunUp(const Invocation& invocation) {
  if (invocation.words.size() != 1)
    return Invalid("name the file of one cluster", "rt up cluster.yaml");
  RT_ASSIGN_OR_RETURN(YamlDocument document, ParseYamlFile(invocation.words[0]));
  if (KindOf(document) == YamlKind::kExperiment)
    return document.At(
        Invalid("this is an experiment, not a cluster", "rt submit " + invocation.words[0]),
        "experiment");
  RT_ASSIGN_OR_RETURN(ClusterSpec spec, LoadCluster(document));
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  RT_ASSIGN_OR_RETURN(const std::optional<Millis> keep, ReadKeep(invocation));
  RT_ASSIGN_OR_RETURN(UpResult result, BringUp(home, spec, {.keep = keep}));
  PrintCluster(invocation, spec.cluster_name, "UP", Json::MakeArray());
  if (result.continues) SayContinues(spec.cluster_name);
  if (invocation.output == Output::kTable)
    std::fprintf(stderr, "cluster '%s' is up: %s READY%s\n", spec.cluster_name.c_str(),
                 Counted(result.workers, "worker is", "workers are").c_str(),
                 result.workers_max == 0
                     ? ""
                     : (", up to " + std::to_string(result.workers_max) + " by demand").c_str());
  return kExitOk;
}

}  // namespace rt
