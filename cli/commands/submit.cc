// `rt submit`: finds out what is submitted and where to, and brings the cluster up and down.
#include "cli/commands/submit.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/bring_home.h"
#include "cli/client/head_probe.h"
#include "cli/commands/up.h"
#include "cli/hosts/host_cluster.h"
#include "cli/shellwords.h"
#include "cli/snapshot.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/remote_store.h"
#include "common/yaml/cluster_spec.h"

namespace rt {
namespace {

// When a driver leaves experiments running, the watcher downloads their results as well.
constexpr Millis kTearDownMax = 600'000;
// The default of --keep: long enough for a person to notice that the client was lost.
constexpr Millis kKeepDefault = 24 * 3'600'000;

struct Parsed {
  std::optional<ClusterSpec> cluster;
  Submission submission;
};

bool IsYaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

absl::Status ReadScript(const std::string& path, Submission& submission) {
  submission.script = path;
  if (!IsYaml(path)) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(YamlDocument document, ParseYamlFile(path));
  if (KindOf(document) != YamlKind::kExperiment)
    return document.At(Invalid("neither an experiment nor a cluster",
                               "an experiment has the key 'experiment', a cluster 'cluster_name'"),
                       "");
  RT_ASSIGN_OR_RETURN(submission.experiment, LoadExperiment(document));
  return absl::OkStatus();
}

absl::StatusOr<Parsed> Parse(const Invocation& invocation) {
  Parsed parsed;
  std::vector<std::string> words = invocation.words;
  if (words.size() > 0 && IsYaml(words[0])) {
    RT_ASSIGN_OR_RETURN(YamlDocument document, ParseYamlFile(words[0]));
    if (KindOf(document) == YamlKind::kCluster) {
      RT_ASSIGN_OR_RETURN(parsed.cluster, LoadCluster(document));
      words.erase(words.begin());
    }
  }
  if (words.empty())
    return Invalid("name a script or an experiment YAML",
                   "rt submit [CLUSTER.yaml] SCRIPT [-- ARGS...]");
  RT_RETURN_IF_ERROR(ReadScript(words[0], parsed.submission));
  std::vector<std::string>& arguments = parsed.submission.arguments;
  arguments.assign(words.begin() + 1, words.end());
  RT_ASSIGN_OR_RETURN(std::vector<std::string> split, SplitShellWords(invocation.args));
  arguments.insert(arguments.end(), split.begin(), split.end());
  arguments.insert(arguments.end(), invocation.arguments.begin(), invocation.arguments.end());
  RT_ASSIGN_OR_RETURN(parsed.submission.ranks, ReadRankPlan(invocation));
  if (parsed.submission.experiment.has_value() && parsed.submission.ranks.has_value())
    return Invalid("an experiment YAML says itself how many ranks its trials have",
                   "put 'resources: {ranks: N}' into it, and leave out --nproc-per-node");
  const bool asks = !invocation.resources.empty() || invocation.preflight;
  if (parsed.submission.experiment.has_value() && asks)
    return Invalid("an experiment YAML says itself what its trials need",
                   "put 'resources: {gpu: 1}' and 'preflight: true' into it, and leave out "
                   "--resources and --preflight");
  if (parsed.submission.experiment.has_value() && !arguments.empty())
    return Invalid("an experiment YAML takes no arguments", "put them into its 'command'");
  if (!parsed.submission.experiment.has_value()) {
    RT_ASSIGN_OR_RETURN(parsed.submission.argv, ArgvOf(parsed.submission));
    RT_ASSIGN_OR_RETURN(parsed.submission.resources, ReadJobResources(invocation));
  }
  return parsed;
}

absl::Status CheckStart(const Invocation& invocation, const Parsed& parsed) {
  if (invocation.start && !parsed.cluster.has_value())
    return Invalid("--start needs a CLUSTER.yaml", "rt submit cluster.yaml --start SCRIPT");
  if (invocation.stop && !parsed.cluster.has_value())
    return Invalid("--stop needs a CLUSTER.yaml: it shuts down only what --start started",
                   "rt submit cluster.yaml --start --stop SCRIPT");
  if (invocation.stop && !invocation.start)
    std::fputs("rt: note: --stop does nothing without --start: the cluster stays up\n", stderr);
  return absl::OkStatus();
}

// Paths of programs differ from host to host, so only the name is sent.
absl::Status FindOnHosts(Submission& submission) {
  const std::string& script = submission.script;
  if (submission.experiment.has_value()) return absl::OkStatus();
  std::vector<std::string>& argv = submission.argv;
  const bool is_python = script.ends_with(".py");
  const bool is_in_path = !is_python && script.find('/') == std::string::npos;
  if (is_python) argv[0] = "python3";
  else if (is_in_path && argv[0].starts_with('/')) argv[0] = script;
  if (!argv[is_python ? 1 : 0].starts_with('/')) return absl::OkStatus();
  return Invalid(script + " is not below the working directory, which is all that the hosts get",
                 "run rt submit in the directory of the script");
}

// What --stop does once the work is over. False when the cluster stays up, or is not down yet.
bool TakeDown(const Home& home, const std::string& name, Watcher& watcher, bool is_home) {
  if (!is_home) watcher.Say("keep");
  absl::Status down = watcher.Finish(kTearDownMax);
  std::string kept = WhyKept(home, name);
  if (!kept.empty()) SayLines("", Split(kept, '\n'));
  if (!down.ok() && kept.empty())
    std::fprintf(stderr, "rt: --stop: %s\n", MessageOf(down).c_str());
  if (is_home && kept.empty()) return down.ok();
  std::fprintf(stderr,
               "rt: cluster '%s' stays up, because not everything could be brought home\n"
               "hint: mend that and run 'rt down %s', or fetch it with 'rt exp download EXP DIR "
               "-c %s'; 'rt down %s --no-download' takes the cluster down without it\n",
               name.c_str(), name.c_str(), name.c_str(), name.c_str());
  return false;
}

}  // namespace

absl::StatusOr<std::string> PushWorkingDirectory(HeadClient& client, const Home& home,
                                                 std::vector<std::string> exclude,
                                                 bool verbose) {
  std::error_code error;
  std::string cwd = std::filesystem::current_path(error).string();
  if (error) return Invalid("the working directory is gone");
  exclude.push_back(home.root());
  exclude.push_back(ResultsRoot());
  std::erase(exclude, cwd);
  RemoteStore store(client.BulkChannel());
  RT_ASSIGN_OR_RETURN(StoredTree tree, StoreSnapshot(store, cwd, std::move(exclude)));
  if (verbose)
    std::fprintf(stderr, "rt: bundle %s: %zu files, %lld bytes, %zu chunks pushed\n",
                 tree.manifest.c_str(), tree.files, static_cast<long long>(tree.bytes),
                 store.chunks_pushed());
  return tree.manifest;
}

void BlockInterrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Interrupts::Interrupts() : thread_([this] { Run(); }) {}

Interrupts::~Interrupts() {
  Clear();
  done_ = true;
  thread_.join();
}

void Interrupts::React(std::function<void()> reaction) {
  std::lock_guard lock(mutex_);
  reaction_ = std::move(reaction);
}

void Interrupts::Clear() {
  std::thread running;
  {
    std::lock_guard lock(mutex_);
    reaction_ = nullptr;
    running = std::move(running_);
  }
  if (running.joinable()) running.join();
}

void Interrupts::Run() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  while (!done_) {
    timespec tick{0, 50'000'000};
    if (sigtimedwait(&set, nullptr, &tick) != SIGINT) continue;
    std::lock_guard lock(mutex_);
    if (happened_ || reaction_ == nullptr) _exit(kExitInterrupted);
    happened_ = true;
    running_ = std::thread(reaction_);
  }
}

// Whether the work is stopped when this client vanishes.
static absl::StatusOr<bool> StopsWorkOfVanished(const Invocation& invocation,
                                                const std::optional<ClusterSpec>& cluster) {
  const std::string& rule = invocation.if_client_vanishes;
  if (rule.empty()) return false;
  if (rule != "finish" && rule != "stop")
    return Invalid("--if-client-vanishes: must be finish or stop, not " + rule);
  const bool is_cloud = cluster.has_value() && cluster->provider_type == "aws";
  if (!is_cloud || !invocation.start || !invocation.stop)
    return Invalid(
        "--if-client-vanishes is for a cluster in a cloud that this command starts and "
        "stops",
        "rt submit CLUSTER.yaml --start --stop SCRIPT");
  return rule == "stop";
}

ExitCode RunSubmit(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(Parsed parsed, Parse(invocation));
  RT_RETURN_IF_ERROR(CheckStart(invocation, parsed));
  if (parsed.cluster.has_value() && !invocation.cluster.empty() &&
      invocation.cluster != parsed.cluster->cluster_name)
    return Invalid("-c says '" + invocation.cluster + "', the file '" +
                   parsed.cluster->cluster_name + "'", "leave one of them out");
  RT_ASSIGN_OR_RETURN(std::optional<Millis> keep, ReadKeep(invocation));
  if (keep.has_value() && !invocation.start)
    return Invalid("--keep needs --start: it is said of a cluster when that starts");
  RT_ASSIGN_OR_RETURN(const bool stops_work, StopsWorkOfVanished(invocation, parsed.cluster));
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  std::string name = parsed.cluster.has_value() ? parsed.cluster->cluster_name
                                                : invocation.cluster;
  BlockInterrupts();
  Interrupts interrupts;
  std::optional<Watcher> watcher;
  if (invocation.start) {
    const bool was_up = home.IsUp(name);
    // A dead head on another machine is not started from here.
    const bool needs_repair =
        was_up && HostCluster::IsKnown(home, name) && !ProbeHeads(home, {name})[name].empty();
    if (!was_up && invocation.stop) {
      RT_ASSIGN_OR_RETURN(Watcher started, Watcher::ForCluster(name));
      watcher.emplace(std::move(started));
      watcher->Say(invocation.no_download ? "no-download" : "results " + ResultsRoot());
    }
    // A cluster that is up stays as it is, whatever the file says now.
    if (!was_up || needs_repair) {
      const bool is_attended = invocation.stop && !was_up;
      if (is_attended && !keep.has_value()) keep = kKeepDefault;
      RT_ASSIGN_OR_RETURN(UpResult up, BringUp(home, *parsed.cluster,
                                               {.make_current = !invocation.stop,
                                                .keep = keep,
                                                .is_attended = is_attended,
                                                .stops_work = stops_work}));
      if (up.continues) SayContinues(name);
    }
  }
  ExitCode code = kExitOk;
  Attendance attendance{interrupts, watcher.has_value() ? &*watcher : nullptr};
  {
    RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, name));
    RT_RETURN_IF_ERROR(client->Reach());
    if (HostCluster::IsKnown(home, client->context().name))
      RT_RETURN_IF_ERROR(FindOnHosts(parsed.submission));
    auto submit = parsed.submission.experiment.has_value() ? SubmitExperiment
                  : parsed.submission.ranks.has_value()    ? SubmitRanks
                                                           : SubmitJob;
    code = submit(*client, home, invocation, parsed.submission, attendance);
  }
  const bool accepted = attendance.job != 0 || attendance.experiment != 0;
  bool is_home = true;
  if (accepted && !invocation.detach && !invocation.no_download)
    is_home = BringSubmittedHome(home, name, attendance);
  if (watcher.has_value() && !invocation.detach)
    is_home = TakeDown(home, name, *watcher, is_home) && is_home;
  if (is_home || !code.ok()) return code;
  return *code == kExitOk || watcher.has_value() ? kExitOwnFailure : *code;
}

}  // namespace rt
