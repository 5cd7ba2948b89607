// `rt bridge [--algorithms | --optimize | --local [--cpus N] [--gpus N]
// [--resources NAME=N,…] [--state DIR]]`.
#include "cli/bridge/bridge.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "cli/bridge/optimizer.h"
#include "cli/client/local_cluster.h"
#include "cli/commands/common.h"
#include "cli/commands/up.h"
#include "cli/render/error.h"
#include "cli/teardown.h"
#include "common/base/status.h"
#include "common/run/files.h"
#include "common/spec/algorithm.h"

namespace rt {
namespace {

constexpr Millis kSweepMax = 60'000;

ExitCode ServeLocal(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(std::string name, MakeTempDirectory("/tmp/rt-"));
  RT_ASSIGN_OR_RETURN(Watcher sweeper, Watcher::ForDirectory(name));
  int lifeline[2];
  if (pipe2(lifeline, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  if (!invocation.state.empty()) RT_RETURN_IF_ERROR(TakeKeptState(invocation.state, name));
  LocalCluster cluster(name, lifeline[0]);
  int cpus = invocation.cpus > 0 ? invocation.cpus : CpuCount();
  std::string resources = "cpu=" + std::to_string(cpus);
  if (invocation.gpus >= 0) resources += ",gpu=" + std::to_string(invocation.gpus);
  if (!invocation.resources.empty()) resources += "," + invocation.resources;
  RT_RETURN_IF_ERROR(cluster.Configure("local", {{"worker-1", resources}}, Json::MakeObject()));
  HeadClient client([&]() -> absl::StatusOr<Context> {
    RT_RETURN_IF_ERROR(cluster.EnsureHead());
    return cluster.Load();
  });
  RT_RETURN_IF_ERROR(client.Connect());
  absl::Status served = ServeBridge(client, [&] {
    if (!cluster.HeadIsAlive()) client.Refresh().IgnoreError();
  });
  HeadClient closing([&] { return cluster.Load(); });
  absl::Status shut = cluster.HeadIsAlive() ? ShutDown(closing, cluster) : absl::OkStatus();
  close(lifeline[1]);
  close(lifeline[0]);
  absl::Status swept = sweeper.Finish(kSweepMax);
  for (const absl::Status& status : {served, shut, swept}) RT_RETURN_IF_ERROR(status);
  return kExitOk;
}

// {"algorithms": […]}, the search algorithms first, each in its newest version.
Json AlgorithmList() {
  Json list = Json::MakeArray();
  for (AlgorithmKind kind : {AlgorithmKind::kSearch, AlgorithmKind::kScheduler})
    for (const AlgorithmTable* table : AlgorithmTables(kind))
      if (FindTable(kind, table->name) == table) list.Append(ToJson(*table));
  return Json::MakeObject({{"algorithms", std::move(list)}});
}

}  // namespace

ExitCode RunBridge(const Invocation& invocation) {
  if (invocation.algorithms) {
    PrintJson(AlgorithmList());
    return kExitOk;
  }
  signal(SIGPIPE, SIG_IGN);
  if (invocation.optimize) {
    RT_RETURN_IF_ERROR(ServeOptimizer());
    return kExitOk;
  }
  BlockBridgeSignals();
  if (invocation.local) return ServeLocal(invocation);
  absl::StatusOr<std::unique_ptr<HeadClient>> client = ClientFor(invocation);
  if (!client.ok()) {
    PrintJson(BridgeRefusal(client.status()));
    return ExitCodeOf(client.status());
  }
  RT_RETURN_IF_ERROR(ServeBridge(**client, [] {}));
  return kExitOk;
}

}  // namespace rt
