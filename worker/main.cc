// rt-worker: the daemon of one node. Owns and wires everything, and does nothing else.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/rpc/remote_store.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "common/run/open_files.h"
#include "common/run/python_dir.h"
#include "common/run/runtime_dir.h"
#include "common/run/service_manager.h"
#include "common/run/start_failure.h"
#include "common/spec/gpu_type.h"
#include "worker/checkpoint/output_keeper.h"
#include "worker/checkpoint/pusher.h"
#include "worker/flags.h"
#include "worker/gpu/gpu_watch.h"
#include "worker/launch/incarnation.h"
#include "worker/link/away.h"
#include "worker/link/barrier_link.h"
#include "worker/link/executor_relay.h"
#include "worker/link/head_link.h"
#include "worker/link/join.h"
#include "worker/link/local_address.h"
#include "worker/link/node_number.h"
#include "worker/link/peer_finder.h"
#include "worker/link/peer_members.h"
#include "worker/link/peer_server.h"
#include "worker/link/report_loop.h"
#include "worker/link/stack_link.h"
#include "worker/link/sync_loop.h"
#include "worker/loop/loop_watch.h"
#include "worker/loop/restart.h"
#include "worker/notice/notice_choice.h"
#include "worker/notice/notice_watch.h"
#include "worker/session/rank_stacks.h"

namespace rt::worker {
namespace {

constexpr size_t kPoolThreads = 8;
constexpr size_t kPoolQueue = 4'096;
constexpr unsigned kStopSeconds = 5;
constexpr int kDeadManStatus = 3;  // The user data of a machine (common/provider/aws) knows it.
constexpr int kHeadIsGone = -1;    // Instead of a signal: the daemon ends because of --dead-man.
// What is still running so long after --dead-man ends with the machine.
constexpr Millis kDeadManGrace = 60'000;
constexpr Millis kLeaveFor = 1'500;  // Until a head has heard that we stop.

std::string BootId() {
  auto boot = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  return boot.ok() ? std::string(Trim(*boot)) : "";
}

std::string BinDir() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

GpuChoice ChoiceOf(const Flags& flags) {
  GpuChoice choice{.share = flags.gpu_share, .shares = flags.gpu_shares};
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) choice.visible = visible;
  if (flags.says_gpus) choice.units = flags.resources.gpu;
  return choice;
}

NodeFacts FactsOf(const Flags& flags, const GpuWatch& gpus) {
  const std::string bin_dir = BinDir();
  return {.bin_dir = bin_dir,
          .python_dir = FindPythonDir(bin_dir),
          .interface = InterfaceWith(LocalAddressTowards(flags.head)),
          .ask_gpus = [&gpus] {
            std::map<std::string, Bytes> memory;
            for (const Gpu& gpu : gpus.gpus()) memory[gpu.facts.uuid] = gpu.facts.memory;
            return memory;
          }};
}

v1::Inventory MakeInventory(const Flags& flags, const GpuWatch& gpus) {
  v1::Inventory inventory;
  inventory.set_address(LocalAddressTowards(flags.head));
  inventory.set_state_dir(flags.state_dir);
  inventory.mutable_resources()->set_cpu(flags.resources.cpu);
  inventory.mutable_resources()->set_gpu(gpus.units());
  for (const Gpu& gpu : gpus.gpus()) {
    v1::Gpu* listed = inventory.add_gpus();
    listed->set_uuid(gpu.facts.uuid);
    listed->set_index(gpu.index);
    listed->set_name(gpu.facts.name);
    listed->set_memory(gpu.facts.memory);
    listed->set_trouble(gpu.facts.fault);
    listed->set_quarantine(gpu.quarantine);
    listed->set_by_hand(gpu.by_hand);
    listed->set_island(gpu.facts.island);
  }
  inventory.mutable_resources()->set_memory(flags.resources.memory);
  Resources all = flags.resources;
  AddGpuType(all, CommonType(gpus.gpus()));
  for (const auto& [name, units] : all.custom) {
    (*inventory.mutable_resources()->mutable_custom())[name] = units;
  }
  for (const auto& [name, value] : flags.labels) (*inventory.mutable_labels())[name] = value;
  inventory.set_version(RT_VERSION);
  inventory.set_boot_id(BootId());
  inventory.set_pid(static_cast<uint64_t>(::getpid()));
  return inventory;
}

StackLink::ReadHere StacksHere(Launcher& launcher) {
  return [&launcher](const AttemptId& attempt, const std::vector<uint32_t>& ranks) {
    return ReadRankStacks(launcher, attempt, ranks);
  };
}

// Null where this node serves no others; it goes on without, and fetches from the head and from
// them.
std::unique_ptr<PeerServer> ServePeers(const Flags& flags, const Credentials& credentials,
                                       LocalTrees& trees, PeerMembers& members,
                                       PeerServerOptions::Replicate replicate, Barriers& barriers,
                                       StackLink::ReadHere read_stacks) {
  const std::string host = LocalAddressTowards(flags.head);
  if (flags.peer_port < 0 || host.empty()) return nullptr;
  auto server =
      PeerServer::Start({.host = host,
                         .port = flags.peer_port,
                         .bytes_per_second = flags.peer_bandwidth,
                         .replicate = std::move(replicate),
                         .check_member = [&members](uint64_t node) { return members.Check(node); },
                         .barriers = &barriers,
                         .read_stacks = std::move(read_stacks),
                         .state_dir = flags.state_dir},
                        credentials, trees);
  if (server.ok()) return std::move(*server);
  RT_LOG(kWarning) << "other workers cannot fetch from here: " << MessageOf(server.status());
  return nullptr;
}

// What lies on this node, and the way to what lies elsewhere.
struct Trees {
  Trees(const Flags& flags, const std::shared_ptr<grpc::Channel>& head,
        const Credentials& credentials, const std::string& cluster_id, BlobStore& store)
      : peers(head, credentials, cluster_id),
        members(head),
        local(flags.state_dir + "/checkpoints", BoundsOn(flags.state_dir, flags.keep_checkpoints),
              [this] { peers.Changed(); }),
        fetcher(store, local, &peers) {}
  // `pushes`: keeps the replicas that other nodes request here.
  void Serve(const Flags& flags, const Credentials& credentials, CheckpointPusher& pushes,
             Barriers& barriers, const AttemptTable& attempts, Launcher& launcher) {
    auto replicate = [this, &pushes](const PeerServerOptions::ReplicaRequest& asked) {
      auto from = peers.At(asked.manifest, asked.node, asked.address);
      pushes.uploader().Expect(asked.fence, asked.manifest);
      const absl::Status taken = local.ShareReplica(asked.fence, asked.manifest)
                                     ? absl::OkStatus()
                                     : fetcher.FetchAsReplica(*from, asked.manifest, asked.fence);
      if (!taken.ok()) pushes.uploader().Drop(asked.fence, asked.manifest);
      else pushes.uploader().AddUnsure(asked.fence, asked.manifest, asked.row);
      return taken;
    };
    server = ServePeers(flags, credentials, local, members, std::move(replicate), barriers,
                        StacksHere(launcher));
    peers.Start(local, server == nullptr ? "" : server->address(),
                [&attempts] { return attempts.head_epoch(); });
  }
  ~Trees() { peers.Stop(); }
  std::string port_fault() const { return server == nullptr ? "" : server->fault(); }
  PeerFinder peers;
  PeerMembers members;
  LocalTrees local;
  TreeFetcher fetcher;
  std::unique_ptr<PeerServer> server;
};

bool NothingRuns(const WorkerLoop& loop) {
  const std::vector<Observed> observed = loop.observed();
  return std::all_of(observed.begin(), observed.end(),
                     [](const Observed& one) { return one.phase == Observed::Phase::kExited; });
}

// Nothing runs here, and no replica and no outputs here wait for the store.
bool IsIdle(const WorkerLoop& loop, const ReplicaUploader& uploader) {
  return uploader.IsDone() && loop.outputs_pending().empty() && NothingRuns(loop);
}

// Whether the head has been silent for --dead-man, and what ran has ended or had the time to.
bool IsAbandoned(const Flags& flags, SyncLoop& sync, const WorkerLoop& loop) {
  const Millis silence = flags.dead_man == 0 ? 0 : sync.Silence();
  if (flags.dead_man == 0 || silence < flags.dead_man) return false;
  return NothingRuns(loop) || silence >= flags.dead_man + kDeadManGrace;
}

// Without a head for so long, what runs is ended; 0: never.
Millis StopAfter(const Flags& flags) {
  if (flags.dead_man == 0 || flags.disconnect_stop == 0)
    return std::max(flags.dead_man, flags.disconnect_stop);
  return std::min(flags.dead_man, flags.disconnect_stop);
}

std::string HostName() {
  char name[256] = "worker";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// When Slurm ends the job that this daemon is in; 0: nobody knows.
Millis JobEnd() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  const Millis end = text == nullptr ? 0 : Millis{std::strtoll(text, nullptr, 10)} * 1'000;
  return end > WallClock() ? end : 0;
}

// The next of the signals, or 0 after `left` ms.
int NextSignal(const sigset_t& signals, Millis left) {
  const timespec wait{left / 1'000, left % 1'000 * 1'000'000};
  return std::max(0, sigtimedwait(&signals, nullptr, &wait));
}

// The daemon's, when WaitForEnd has returned `signal`.
int StatusAfter(int signal) { return signal == kHeadIsGone ? kDeadManStatus : 0; }

struct EndQuestions {
  std::function<bool()> is_idle, is_abandoned;
};

// Returns the signal once the daemon is to end: SIGTERM or SIGINT, or kHeadIsGone. Where SIGTERM is
// a notice, the first begins it: then the end comes when nothing runs here any more, shortly before
// the deadline, or with a second signal, and 0 is returned.
int WaitForEnd(const sigset_t& signals, const NoticeSources& notices, Millis grace,
               const EndQuestions& ask) {
  constexpr Millis kPause = 100, kLook = 1'000, kSlack = 2'000;
  Millis leave_by = 0;
  while (leave_by == 0 || (WallClock() < leave_by && !ask.is_idle())) {
    if (ask.is_abandoned()) return kHeadIsGone;
    const int number = NextSignal(signals, leave_by == 0 ? kLook : kPause);
    if (number == SIGUSR1 && notices.on_usr1 != nullptr) {
      notices.on_usr1->Say({"signal SIGUSR1", JobEnd()});
    } else if (number == SIGTERM && notices.on_term != nullptr && leave_by == 0) {
      const Millis deadline = WallClock() + grace;
      notices.on_term->Say({"signal SIGTERM", deadline});
      leave_by = std::max(WallClock() + grace / 2, deadline - kSlack);
    } else if (number == SIGTERM || number == SIGINT) {
      return leave_by == 0 ? number : 0;
    }
  }
  return 0;
}

// Whatever still hangs then ends with the process; trials are not ours to end, and everything that
// must last is on disk.
void BeginStop(int status) {
  RT_LOG(kInfo) << "stopping; attempts keep running";
  std::thread([status] {
    ::sleep(kStopSeconds);
    ::_exit(status);
  }).detach();
}

// Listens for notices until the daemon is to end. Returns what WaitForEnd does.
int ServeUntilEnd(const sigset_t& signals, const Flags& flags, SyncLoop& sync,
                  const WorkerLoop& loop, const ReplicaUploader& uploader) {
  const EndQuestions ask{[&] { return IsIdle(loop, uploader); },
                         [&] { return IsAbandoned(flags, sync, loop); }};
  NoticeSources notices = MakeNoticeSources(flags.notices, flags.notice_url, flags.notice_file);
  // Lives as long as the process: a look at a slow server does not hold up the end.
  auto* watch = new NoticeWatch(
      std::move(notices.all),
      {[&sync](const std::optional<Notice>& notice) { sync.SetNotice(notice); }, ask.is_idle});
  watch->Start();
  const int signal = WaitForEnd(signals, notices, flags.notice_grace, ask);
  if (signal == kHeadIsGone) {
    RT_LOG(kError) << "no head has answered for " << flags.dead_man / 1'000
                   << " s (--dead-man): this daemon ends with status " << kDeadManStatus;
  }
  BeginStop(StatusAfter(signal));
  watch->Stop();
  return signal;
}

absl::Status FillIn(Flags& flags) {
  flags.state_dir = std::filesystem::absolute(flags.state_dir).lexically_normal().string();
  while (flags.state_dir.size() > 1 && flags.state_dir.back() == '/') flags.state_dir.pop_back();
  return EnsureDirectory(flags.state_dir);
}

void SayReady(const ServiceManager& manager, const std::string& node, const Flags& flags) {
  const std::string name = flags.name.empty() ? HostName() : flags.name;
  RT_LOG(kInfo) << "node " << node << " (" << name << ") serves " << flags.head;
  ClearStartFailure(flags.state_dir);
  manager.Ready("node " + node + " (" + name + ") of " + flags.head);
}

LoopWatchEvents HangEvents(SyncLoop& sync, const Restart& restart) {
  return {[&sync](const std::string& why) { sync.SetFault(FaultSource::kLoop, why); },
          [&restart](const HungActivity& hung) { restart.Now(hung); }};
}

void Start(TrialSocket& socket, Launcher& launcher, SyncLoop& sync, BarrierLink& barriers,
           StackLink& stacks, ExecutorRelay& relay) {
  socket.SetDialExecutor([&relay](const Fence& from, const Json& call, auto done) {
    relay.Dial(from, call, std::move(done));
  });
  socket.SetReadStacks(
      [&stacks](const AttemptId& attempt, const std::vector<RankArrival>& missing) {
        return stacks.Read(attempt, missing);
      });
  socket.barriers().SetEvents(
      {[&barriers] { barriers.Wake(); }, [&socket] { socket.Wake(); },
       [&launcher](const AttemptId& attempt, uint64_t passed) {
         launcher.KeepBarrier(attempt, passed);
       },
       [&launcher](const AttemptId& attempt) { return launcher.KeptBarrier(attempt); }});
  barriers.Start();
  socket.OnFull([&sync](const std::string& why) { sync.SetFault(FaultSource::kSocket, why); });
  socket.Start();
}

// Why whoever prepared this machine wants no work here: the text of a file, for as long as that
// exists. Empty: there is none.
std::string ReadQuarantine(const std::string& file) {
  const absl::StatusOr<std::string> why = ReadFile(file, Bytes{limits::kReasonBytesMax});
  if (absl::IsNotFound(why.status())) return "";
  return why.ok() && !why->empty() ? *why : "quarantined by " + file;
}

void Start(SyncLoop& sync, const Flags& flags, const Trees& trees, AttemptTable& attempts,
           GpuWatch& gpus) {
  sync.AskGpuSamples([&gpus] { return gpus.samples(); });
  sync.AskProfiles([&attempts] { return attempts.Profiles(); });
  sync.OnClearedGpu(
      [&gpus](const std::string& uuid, uint64_t quarantine) { gpus.Clear(uuid, quarantine); });
  sync.OnFaultyGpu(
      [&gpus](const std::string& uuid, const std::string& what) { gpus.NoteFaulty(uuid, what); });
  sync.AskFault([&trees, file = flags.state_dir + "/quarantine"] {
    const std::string why = trees.port_fault();
    return why.empty() ? ReadQuarantine(file) : why;
  });
  sync.OnSuperseded([&flags, &attempts](uint64_t newest) -> absl::StatusOr<uint64_t> {
    RT_ASSIGN_OR_RETURN(const uint64_t next, NextIncarnation(flags.state_dir, newest));
    attempts.set_incarnation(next);
    return next;
  });
  sync.Start(StopAfter(flags), attempts.head_epoch());
}

void Start(GpuWatch& gpus, const Flags& flags, SyncLoop& sync, WorkerLoop& loop) {
  gpus.Start({.on_change = [&] { sync.SetInventory(MakeInventory(flags, gpus)); },
              .on_fault = [&loop](const Fence& fence,
                                  const std::string&) { loop.Post(input::GpuFailed{fence}); },
              .on_drain = [&sync](const std::string& why) { sync.SetGpuDrain(why); },
              .on_given_back = [&loop] { loop.Wake(); }});
}

absl::StatusOr<Credentials> CredentialsOf(const Flags& flags) {
  return ReadOrJoin({.head = flags.head,
                     .token_file = flags.token_file,
                     .name = flags.name,
                     .default_name = HostName(),
                     .directory = flags.state_dir + "/credentials"});
}

[[noreturn]] void End(ExecutorRelay& relay, const std::string& state_dir,
                      const std::string& runtime_dir, int status) {
  relay.Stop();  // Its sockets lie in the runtime directory.
  ::unlink((state_dir + "/pid").c_str());
  ::rmdir(runtime_dir.c_str());  // Stays while it holds the socket of something that runs.
  ::_exit(status);               // Transfers under way are repeated by the next daemon.
}

absl::Status WritePid(const std::string& state_dir) {
  return WriteFileAtomic(state_dir + "/pid", std::to_string(::getpid()) + "\n");
}

absl::Status Serve(Flags flags, const sigset_t& signals, const ServiceManager& manager,
                   const Restart& restart) {
  RT_RETURN_IF_ERROR(FillIn(flags));
  RT_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Acquire(flags.state_dir));
  RT_RETURN_IF_ERROR(WritePid(flags.state_dir));
  RT_ASSIGN_OR_RETURN(uint64_t incarnation, NextIncarnation(flags.state_dir));
  RT_ASSIGN_OR_RETURN(std::string runtime_dir, MakeRuntimeDir(flags.state_dir));
  RT_ASSIGN_OR_RETURN(Credentials credentials, CredentialsOf(flags));
  RT_ASSIGN_OR_RETURN(Identity identity, IdentityOf(credentials.own.certificate_pem));
  RT_ASSIGN_OR_RETURN(const uint64_t node, NodeNumber(identity.name, flags.state_dir));
  auto control = MakeChannel(flags.head, credentials, identity.cluster_id, false);
  RemoteStore store(MakeChannel(flags.head, credentials, identity.cluster_id, true));

  GpuWatch gpus(ChoiceOf(flags), flags.state_dir, BootId());
  RT_RETURN_IF_ERROR(gpus.Open());
  Trees trees(flags, control, credentials, identity.cluster_id, store);
  Launcher launcher({flags.state_dir, runtime_dir, FactsOf(flags, gpus)}, trees.fetcher);
  AttemptTable attempts(flags.state_dir + "/head", identity.cluster_id, incarnation);
  HeadLink head(control, MakeChannel(flags.head, credentials, identity.cluster_id, true), attempts);
  IoPool pool(kPoolThreads, kPoolQueue);
  WorkerLoop* wake_loop = nullptr;
  TrialSocket* wake_socket = nullptr;
  CheckpointPusher pushes(store, head, trees.local, [&] {
    wake_loop->Wake();
    wake_socket->Wake();
  }, &trees.peers);
  TrialSocket socket(head, store, pushes, pool);
  wake_socket = &socket;
  ReportLoop reports(control, attempts, [&] { socket.Wake(); });
  LogSender logs(control, launcher);
  SyncLoop* sync_now = nullptr;
  OutputKeeper outputs({.state_dir = flags.state_dir, .bytes = flags.keep_outputs}, store, head,
                       launcher.bundles(), [&] { sync_now->SyncSoon(); });
  LoopActivity activity;
  WorkerLoop loop(
      {launcher, socket, pool, attempts, pushes, outputs, activity, gpus},
      [&](bool urgent) { reports.OnRow(urgent); },
      [&](bool urgent) {
        if (sync_now != nullptr) urgent ? sync_now->SyncNow() : sync_now->SyncSoon();
      });
  SyncLoop sync(control, loop, logs, MakeInventory(flags, gpus), incarnation);
  sync_now = &sync;
  wake_loop = &loop;
  const auto find_peer = [&](uint64_t other) { return trees.peers.ChannelTo(other); };
  BarrierLink barriers(socket.barriers(), find_peer);
  StackLink stacks(StacksHere(launcher), find_peer);
  ExecutorRelay relay(head, pool, find_peer, {node, runtime_dir});
  Start(socket, launcher, sync, barriers, stacks, relay);
  LoopWatch watch(activity, flags.loop_hang, HangEvents(sync, restart));
  loop.Start(restart.hung());
  pushes.Start();
  trees.Serve(flags, credentials, pushes, socket.barriers(), attempts, launcher);
  outputs.Start();
  reports.Start();
  Start(sync, flags, trees, attempts, gpus);
  Start(gpus, flags, sync, loop);
  SayReady(manager, identity.name, flags);
  const Heartbeat heartbeat(manager, [&](std::function<void()> ok) { loop.Ask(std::move(ok)); });
  const int signal = ServeUntilEnd(signals, flags, sync, loop, pushes.uploader());
  manager.Stopping();
  watch.Stop();
  sync.Leave(AwayFor(signal, flags.away), kLeaveFor);
  gpus.Stop();
  sync.Stop();
  reports.Stop();
  logs.Stop();
  loop.Stop();
  socket.Stop();
  launcher.Stop();
  End(relay, flags.state_dir, runtime_dir, StatusAfter(signal));
}

int Main(int argc, char** argv) {
  const auto manager = ServiceManager::FromEnvironment();
  absl::StatusOr<Flags> flags = ParseFlags(argc, argv);
  if (!flags.ok()) {
    std::string hint = HintOf(flags.status());
    if (!hint.empty()) hint += "; ";
    std::fprintf(stderr, "rt-worker: %s\nhint: %ssee rt-worker --help\n",
                 MessageOf(flags.status()).c_str(), hint.c_str());
    return 2;
  }
  if (flags->help) return std::fputs(kUsage, stdout), 0;
  if (flags->version) return std::puts("rt-worker " RT_VERSION), 0;
  if (flags->failpoints) return std::fputs(ListFailpoints("worker").c_str(), stdout), 0;
  ::umask(077);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  RaiseOpenFiles();
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  PrepareGrpc();
  absl::Status served = ArmFailpointsFromEnvironment("worker");
  const Restart restart(argc, argv, manager.Environment());
  if (served.ok()) served = Serve(*flags, signals, manager, restart);
  if (served.ok()) return 0;
  NoteStartFailure(flags->state_dir, served);
  const std::string hint = HintOf(served);
  std::fprintf(stderr, "rt-worker: %s\n%s%s%s", MessageOf(served).c_str(),
               hint.empty() ? "" : "hint: ", hint.c_str(), hint.empty() ? "" : "\n");
  return 1;
}

}  // namespace
}  // namespace rt::worker

int main(int argc, char** argv) { return rt::worker::Main(argc, argv); }
