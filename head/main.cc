// rt-head: wires the journal, the loop, the services, the sinks and the provider together, and
// waits for the end. SIGTERM and SIGINT end the head and leave workers and trials alone; a Shutdown
// call and the end of the lifeline stop everything first.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <future>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/programs/served_mounts.h"
#include "common/programs/served_programs.h"
#include "common/rpc/channel.h"
#include "common/rpc/self_probe.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "common/run/find_program.h"
#include "common/run/io_pool.h"
#include "common/run/open_files.h"
#include "common/run/service_manager.h"
#include "head/blob_home.h"
#include "head/config.h"
#include "head/journal_home.h"
#include "head/loop/head_loop.h"
#include "head/options.h"
#include "head/service/client_lease.h"
#include "head/service/fetched_logs.h"
#include "head/service/head_server.h"
#include "head/service/log_fetcher.h"
#include "head/service/metrics_server.h"
#include "head/service/node_reconciler.h"
#include "head/service/shutdown.h"
#include "head/service/sweeper.h"
#include "head/service/tokens.h"
#include "head/sinks/result_sinks.h"
#include "head/state_dir.h"

namespace rt {
namespace {

constexpr size_t kIoThreads = 8;
constexpr size_t kIoQueuedMax = 16'384;
constexpr Millis kCallsGrace = 1'000;
constexpr Millis kSweepEveryMax = 1'800'000;
// Of a head that ends for good: what is asked now has no answer, but its last answers must leave.
constexpr Millis kLastCallsGrace = 50;

// What main waits for. Made before the first thread, so that every thread blocks the signals.
struct Ends {
  int signals = -1;
  int shutdown = -1;  // An eventfd: a Shutdown call was carried out.
  int lifeline = -1;
};

Ends PrepareEnds(int lifeline) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  RT_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
  if (lifeline >= 0) fcntl(lifeline, F_SETFD, FD_CLOEXEC);
  Ends ends{signalfd(-1, &set, SFD_CLOEXEC), eventfd(0, EFD_CLOEXEC), lifeline};
  RT_CHECK(ends.signals >= 0 && ends.shutdown >= 0);
  return ends;
}

enum class End { kSignal, kShutdown, kLifeline };

// Nothing when `span` ms are over (below 0: waits for ever).
std::optional<End> AwaitEnd(const Ends& ends, Millis span) {
  for (;;) {
    pollfd fds[] = {{ends.shutdown, POLLIN, 0}, {ends.signals, POLLIN, 0},
                    {ends.lifeline, POLLIN, 0}};
    const int ready = poll(fds, 3, static_cast<int>(span));
    if (ready < 0) continue;
    if (ready == 0) return std::nullopt;
    if (fds[0].revents != 0) return End::kShutdown;
    if (fds[1].revents != 0) return End::kSignal;
    char byte;
    if (fds[2].revents != 0 && read(ends.lifeline, &byte, 1) <= 0) return End::kLifeline;
  }
}

std::string BesideUs(const std::string& program) {
  return BinaryDirectory().value_or("") + "/" + program;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// The head as parts, in the order in which they are made; they go in reverse.
struct Head {
  std::unique_ptr<JournalHome> home;
  std::unique_ptr<Journal> journal;
  OpenedBlobs blobs;
  std::unique_ptr<Settings> settings;
  std::unique_ptr<HeadLoop> loop;
  std::unique_ptr<IoPool> pool;
  std::unique_ptr<ResultSinks> sinks;
  std::unique_ptr<FetchedLogs> fetched_logs;
  std::unique_ptr<HeadServer> server;
  std::unique_ptr<MetricsServer> metrics;
  std::unique_ptr<SelfProbe> probe;
  std::unique_ptr<ServedPrograms> programs;
  std::unique_ptr<NodeProvider> provider;
  std::unique_ptr<ScalingNews> news;
  std::unique_ptr<NodeReconciler> reconciler;
  std::unique_ptr<LogFetcher> log_fetcher;
  std::unique_ptr<BlobSweeper> sweeper;
  std::unique_ptr<ClientLease> lease;  // Null: the cluster stays up without a client.
  Reached reached;

  Io io() {
    return [this](std::function<void()> job) { pool->Submit(std::move(job)); };
  }
};

absl::Status OpenStores(const HeadOptions& options, const HeadConfig& config, const ClusterCa& ca,
                        std::optional<World> followed, Head& head) {
  // Memory is ahead of what is kept, or another head leads: replay is the recovery.
  const auto end = [directory = options.state_dir](const absl::Status& status) {
    RT_LOG(kError) << ExplainJournalFailure(directory, status);
    _exit(1);
  };
  RT_ASSIGN_OR_RETURN(head.journal, head.home->Open(end));
  RT_RETURN_IF_ERROR(CheckCluster(*head.journal, ca.cluster_id, options.state_dir));
  RT_ASSIGN_OR_RETURN(head.blobs, OpenBlobs(config.store, options.state_dir, ca.cluster_id));
  RT_ASSIGN_OR_RETURN(ResultRoots roots, ResultRootsOf(config, options.state_dir));
  head.settings = std::make_unique<Settings>(ca.cluster_id, ca.ca, roots);
  head.settings->set_store(*head.blobs.store);
  input::StartHead start{ca.cluster_id, config.cluster_name, RT_VERSION};
  RT_ASSIGN_OR_RETURN(start.node_types, NodeTypes(config));
  start.restored = WasRestored(options.state_dir);
  for (PoolSpec pool : config.scaling.pools) {
    pool.each = config.provider->SizeOf(pool);
    start.pools.push_back(std::move(pool));
  }
  start.max_workers = config.scaling.max_workers;
  start.elastic_interval = config.elastic_interval;
  start.fetches_logs = !start.pools.empty();
  head.fetched_logs = std::make_unique<FetchedLogs>(options.state_dir + "/fetched-logs");
  head.settings->set_fetched_logs(head.fetched_logs.get());
  HeadLoop::Options loop;
  loop.on_fatal = end;
  loop.snapshot_every_events = config.journal.snapshot_every;
  RT_ASSIGN_OR_RETURN(head.loop, HeadLoop::Start(*head.journal, start, std::move(loop),
                                                   std::move(followed)));
  ForgetRestored(options.state_dir);
  head.pool = std::make_unique<IoPool>(kIoThreads, kIoQueuedMax);
  auto flushed = [loop = head.loop.get()](input::SinksFlushed news) {
    loop->Post(std::move(news), [](const absl::Status&, const Answer&) {});
  };
  RT_ASSIGN_OR_RETURN(head.sinks, ResultSinks::Start(*head.journal, options.state_dir, flushed,
                                                     {.roots = std::move(roots)}));
  head.loop->OnDurable([sinks = head.sinks.get()](uint64_t) { sinks->Wake(); });
  return absl::OkStatus();
}

absl::Status ServeMetrics(const HeadOptions& options, const Credentials& credentials, Head& head) {
  const std::string path = options.state_dir + "/metrics";
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (options.metrics.empty()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(HostPort wanted, ParseHostPort(options.metrics));
  RT_ASSIGN_OR_RETURN(
      head.metrics,
      MetricsServer::Start(*head.loop, *head.settings, credentials, wanted.host, wanted.port,
                           [server = head.server.get()] {
                             return std::map<std::string, PortCounters>{
                                 {"head", server->port_counters()}};
                           }));
  wanted.port = head.metrics->port();
  return WriteFileAtomic(path, ToString(wanted) + "\n");
}

// Where this machine's own processes reach what listens there.
HostPort OnThisMachine(HostPort listen) {
  if (listen.host == "0.0.0.0") listen.host = "127.0.0.1";
  if (listen.host == "[::]") listen.host = "[::1]";
  return listen;
}

// A head whose port is dead is started again by systemd, by its keeper, or by the next command: for
// them it has died, so its pid file stays.
std::unique_ptr<SelfProbe> ProbeOwnPort(const ClusterCa& ca, const Credentials& credentials,
                                        const HostPort& listen) {
  SelfProbeOptions options;
  options.server_name = HeadName(ca.cluster_id);
  options.method = "/rt.v1.ClusterService/Status";  // Refused to us, but answered.
  options.address = ToString(OnThisMachine(listen));
  if (const char* text = std::getenv("RT_PROBE_MS"); text != nullptr)  // For tests.
    options.every = options.timeout = std::max(50, std::atoi(text));
  return std::make_unique<SelfProbe>(options, credentials, [](const std::string& why) {
    RT_LOG(kError) << "the port of this head is dead (" << why << "): ending, to be started again";
    std::fflush(nullptr);
    _exit(1);
  });
}

absl::Status Serve(const HeadOptions& options, const ClusterCa& ca, Head& head,
                   std::function<void()> end_head) {
  HostPort wanted{"127.0.0.1", 0};
  HostPort advertise;
  if (!options.listen.empty()) wanted = *ParseHostPort(options.listen);
  if (!options.advertise.empty()) advertise = *ParseHostPort(options.advertise);
  // Workers and clients know the port of the last run.
  HostPort last = LastAddress(options.state_dir);
  bool again = wanted.port == 0 && last.host == wanted.host && last.port != 0;
  std::vector<std::string> hosts = {"127.0.0.1", "localhost", HostName()};
  if (!advertise.host.empty()) hosts.push_back(advertise.host);
  RT_ASSIGN_OR_RETURN(Credentials credentials, MakeHeadCredentials(ca, hosts));
  HeadServer::Parts parts{*head.loop, *head.journal, *head.blobs.store, head.io(),
                          *head.settings};
  absl::StatusOr<std::unique_ptr<HeadServer>> server = HeadServer::Start(
      parts, credentials, ToString(again ? last : wanted), end_head);
  if (again && !server.ok())
    server = HeadServer::Start(parts, credentials, ToString(wanted), end_head);
  if (!server.ok()) return server.status();
  head.server = std::move(*server);
  head.settings->set_port_fault([server = head.server.get()] { return server->port_fault(); });
  head.reached.listen = {wanted.host, head.server->port()};
  if (advertise.host.empty()) {
    bool any = wanted.host == "0.0.0.0" || wanted.host == "[::]";
    advertise.host = any ? HostName() : wanted.host;
  }
  if (advertise.port == 0) advertise.port = head.server->port();
  head.reached.advertise = advertise;
  head.settings->set_address(ToString(advertise));
  head.probe = ProbeOwnPort(ca, credentials, head.reached.listen);
  return ServeMetrics(options, credentials, head);
}

// Nodes that the provider started for an earlier configuration: `rt up` has ended them.
void RemoveDisownedNodes(Head& head) {
  auto read = [&](const Core& core, std::vector<NodeId>& gone) {
    for (const auto& [id, node] : core.world.state.nodes)
      if (!node.gone && node.machine == 0 && head.provider->Disowns(node.inventory.state_dir))
        gone.push_back(id);
  };
  std::vector<NodeId> gone;
  std::promise<void> known;
  head.loop->Query([&](const Core& core) { read(core, gone); },
                   [&](const absl::Status&) { known.set_value(); });
  known.get_future().get();
  for (NodeId id : gone)
    head.loop->Post(input::RemoveNode{id, "no longer in the cluster's configuration"},
                    [](const absl::Status&, const Answer&) {});
}

// All places where a head of this cluster may be: whoever dials tries them in this order.
std::string WithPeers(const HeadOptions& options, const HostPort& own) {
  return ToString(own) + (options.peers.empty() ? "" : "," + options.peers);
}

// A join token for a worker of the provider; waits for it.
absl::StatusOr<std::string> MakeWorkerToken(Head& head, uint64_t machine, const std::string& name) {
  TokenRequest request{.role = "worker"};
  if (machine != 0) {
    request.ttl = limits::kMachineJoinMax;
    request.name = name;
    request.machine = machine;
  }
  std::promise<absl::StatusOr<NewToken>> made;
  CreateToken(*head.loop, head.io(), *head.settings, request,
              [&made](absl::StatusOr<NewToken> token) { made.set_value(std::move(token)); });
  absl::StatusOr<NewToken> token = made.get_future().get();
  if (!token.ok()) return token.status();
  return token->text;
}

// What machines ask the port for. The archive is packed at once, not when the first is wanted.
void ServeMachines(const HeadOptions& options, const HeadConfig& config, Head& head) {
  const ProviderSetup& provider = *config.provider;
  BootParts boot{.setup_commands = provider.SetupCommands()};
  if (!config.mounts.empty()) {
    const auto mounts = std::make_shared<ServedMounts>(config.mounts);
    boot.mounts = [mounts] { return mounts->List(); };
    boot.mount = [mounts](const std::string& digest) { return mounts->Bytes(digest); };
  }
  if (provider.NeedsPrograms()) {
    head.programs = std::make_unique<ServedPrograms>(options.state_dir + "/programs");
    boot.programs = [programs = head.programs.get()] { return programs->Bytes(); };
    head.io()([programs = head.programs.get()] {
      if (const auto packed = programs->Sha256(); !packed.ok()) {
        RT_LOG(kWarning) << "the programs cannot be packed: " << MessageOf(packed.status());
      }
    });
  }
  head.settings->set_boot(std::move(boot));
}

absl::Status StartProvider(const HeadOptions& options, const HeadConfig& config,
                           const std::string& cluster_id, Head& head) {
  if (config.provider == nullptr) return absl::OkStatus();
  ProviderContext context{
      .cluster_id = cluster_id,
      .cluster_dir = std::filesystem::path(options.state_dir).parent_path().string(),
      .worker_program = BesideUs("rt-worker"),
      .head_address = WithPeers(options, OnThisMachine(head.reached.listen)),
      .head_address_elsewhere = WithPeers(options, head.reached.advertise),
      .make_token = [&head](uint64_t machine, const std::string& name) {
        return MakeWorkerToken(head, machine, name);
      },
      .daemon_ended = [&head](const std::string& name) {
        head.loop->Post(input::DaemonEnded{name}, {});
      },
      .programs_sha256 = {}};
  ServeMachines(options, config, head);
  if (head.programs != nullptr)
    context.programs_sha256 = [programs = head.programs.get()] { return programs->Sha256(); };
  RT_ASSIGN_OR_RETURN(head.provider,
                      config.provider->Start(config.scaling.pools, std::move(context)));
  RemoveDisownedNodes(head);
  if (config.scaling.pools.empty()) return absl::OkStatus();
  head.news = std::make_unique<ScalingNews>(config.scaling.hooks);
  head.settings->set_hook_problem([news = head.news.get()] { return news->problem(); });
  head.reconciler = std::make_unique<NodeReconciler>(
      NodeReconciler::Parts{*head.loop, *head.provider, head.io(), *head.news},
      config.scaling.pools);
  head.log_fetcher =
      std::make_unique<LogFetcher>(*head.loop, head.server->logs(), *head.fetched_logs);
  return absl::OkStatus();
}

void StartSweeper(const HeadConfig& config, Head& head) {
  const Millis grace = config.store.keep_garbage;
  head.sweeper = std::make_unique<BlobSweeper>(
      *head.loop, *head.blobs.store,
      SweepTimes{.every = std::clamp<Millis>(grace / 4, 1'000, kSweepEveryMax), .grace = grace});
}

void SayNotStopped(const absl::Status& stopped) {
  if (stopped.ok()) return;
  RT_LOG(kWarning) << "stopping everything: " << MessageOf(stopped);
}

// A cluster that somebody waits for ends itself when nobody does any more.
void AwaitClient(const HeadOptions& options, const HeadConfig& config,
                 const std::function<void()>& end_head, Head& head) {
  if (config.unattended.lease == 0) return;
  std::vector<PoolSpec> pools = config.scaling.pools;
  for (PoolSpec& pool : pools) pool.each = config.provider->SizeOf(pool);
  const auto stop_work = [&head] {
    StopEverything(*head.loop, head.server->waits(), {}, SayNotStopped);
  };
  head.lease = std::make_unique<ClientLease>(
      *head.loop, config.unattended, std::move(pools), options.state_dir + "/unattended",
      ClientLease::Acts{.stop_work = stop_work, .end = end_head});
  head.settings->set_attend([lease = head.lease.get()] {
    lease->Renew();
    return lease->span();
  });
}

// Tells the machine to shut down, once nothing is left to do on it.
void EndMachine(const ClientLease* lease, const std::string& end_file) {
  if (lease == nullptr || !lease->is_over() || end_file.empty()) return;
  if (const absl::Status told = WriteFileAtomic(end_file, ""); !told.ok()) {
    RT_LOG(kError) << "this machine cannot be told to end: " << MessageOf(told);
  }
}

// Stops what runs (bounded, see shutdown.h) without a call from outside.
void StopAll(Head& head) {
  std::promise<absl::Status> stopped;
  StopEverything(*head.loop, head.server->waits(), {},
                 [&stopped](absl::Status status) { stopped.set_value(std::move(status)); });
  SayNotStopped(stopped.get_future().get());
}

// The state directory for a head that starts later.
absl::Status Prepare(const HeadOptions& options) {
  std::string said = options.state_dir + " is noted as restored: start rt-head with it";
  if (options.restored) {
    RT_RETURN_IF_ERROR(NoteRestored(options.state_dir));
  } else {
    RT_ASSIGN_OR_RETURN(said, RestoreStateDir(options.restore_from, options.key_file,
                                              options.state_dir));
  }
  std::puts(said.c_str());
  return absl::OkStatus();
}

absl::Status Run(const HeadOptions& options, const ServiceManager& manager) {
  RT_RETURN_IF_ERROR(EnsureDirectory(options.state_dir));
  absl::StatusOr<DirectoryLock> lock = DirectoryLock::Acquire(options.state_dir);
  if (!lock.ok()) return Annotate(lock.status(), "another head runs here");
  if (options.restored || !options.restore_from.empty()) return Prepare(options);
  RT_RETURN_IF_ERROR(ReserveSpace(options.state_dir));
  RT_ASSIGN_OR_RETURN(HeadConfig config, ReadHeadConfig(options.config, options.state_dir));
  for (const std::string& root : options.results_roots) config.results_roots.push_back(root);
  Ends ends = PrepareEnds(options.lifeline);
  RaiseOpenFiles();
  PrepareGrpc();
  Head head;
  RT_ASSIGN_OR_RETURN(head.home, JournalHome::Make(config.journal, options.state_dir));
  RT_ASSIGN_OR_RETURN(ClusterCa ca, head.home->LoadCa(true));
  std::optional<World> followed;
  if (options.standby) {
    manager.Ready("standing by");
    auto world = head.home->StandBy([&](Millis span) {
      manager.Alive();
      return !AwaitEnd(ends, span).has_value();
    });
    if (absl::IsCancelled(world.status())) return absl::OkStatus();
    if (!world.ok()) return world.status();
    RT_LOG(kInfo) << "the lead is free: taking over at record " << world->state.seq;
    followed = *std::move(world);
  }
  RT_RETURN_IF_ERROR(OpenStores(options, config, ca, std::move(followed), head));
  auto end_head = [shutdown = ends.shutdown] {
    uint64_t one = 1;
    RT_CHECK(write(shutdown, &one, sizeof one) == sizeof one);
  };
  RT_RETURN_IF_ERROR(Serve(options, ca, head, end_head));
  RT_RETURN_IF_ERROR(WriteAdminContext(options.state_dir, ca, config.cluster_name,
                                       WithPeers(options, head.reached.advertise)));
  RT_RETURN_IF_ERROR(head.home->Announce(ToString(head.reached.advertise)));
  RT_RETURN_IF_ERROR(StartProvider(options, config, ca.cluster_id, head));
  StartSweeper(config, head);
  AwaitClient(options, config, end_head, head);
  RT_RETURN_IF_ERROR(WriteWhereabouts(options.state_dir, head.reached));
  RT_LOG(kInfo) << "serving at " << ToString(head.reached.advertise);
  manager.Ready("serving at " + ToString(head.reached.advertise));
  // Through the core thread and the journal: a head in which either hangs serves nobody.
  const Heartbeat heartbeat(manager, [loop = head.loop.get()](std::function<void()> alive) {
    loop->Query([](const Core&) {}, [alive = std::move(alive)](const absl::Status& status) {
      if (status.ok()) alive();
    });
  });
  End end = *AwaitEnd(ends, -1);
  head.probe.reset();
  if (head.lease != nullptr) head.lease->Stop();
  manager.Stopping();
  RT_LOG(kInfo) << (end == End::kSignal ? "ending; workers and trials stay" : "ending for good");
  if (end == End::kLifeline) StopAll(head);
  head.log_fetcher.reset();
  head.reconciler.reset();  // From here on nothing new is made.
  if (end != End::kSignal && head.provider) head.provider->EndAll();
  head.provider.reset();
  head.server->Stop(end == End::kSignal ? kCallsGrace : kLastCallsGrace);
  head.pool->Stop();
  head.home->Finish();
  EndMachine(head.lease.get(), config.unattended.end_file);
  // The loop wakes the sinks and the sinks post to the loop: neither may outlive this process,
  // and both are durable at any moment.
  head.metrics.reset();
  head.settings->set_port_fault(nullptr);
  head.server.reset();
  RemovePid(options.state_dir);  // Whoever sees no head starts one in this directory.
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace
}  // namespace rt

int main(int argc, char** argv) {
  const auto manager = rt::ServiceManager::FromEnvironment();
  absl::StatusOr<rt::HeadOptions> options = rt::ParseHeadOptions({argv + 1, argv + argc});
  if (!options.ok()) {
    std::string hint = rt::HintOf(options.status());
    if (!hint.empty()) hint += "; ";
    std::fprintf(stderr, "rt-head: %s\nhint: %ssee rt-head --help\n",
                 rt::MessageOf(options.status()).c_str(), hint.c_str());
    return 2;
  }
  if (options->help) {
    std::fputs(rt::kHeadHelp, stdout);
    return 0;
  }
  if (options->failpoints) {
    std::fputs(rt::ListFailpoints("head").c_str(), stdout);
    return 0;
  }
  absl::Status status = rt::ArmFailpointsFromEnvironment("head");
  if (status.ok()) status = rt::AdviseOnDamage(rt::Run(*options, manager), options->state_dir);
  if (status.ok()) return 0;
  std::string hint = rt::HintOf(status);
  std::fprintf(stderr, "rt-head: %s\n%s%s%s", rt::MessageOf(status).c_str(),
               hint.empty() ? "" : "hint: ", hint.c_str(), hint.empty() ? "" : "\n");
  return 1;
}
