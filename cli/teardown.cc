#include "cli/teardown.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "cli/bring_home.h"
#include "cli/client/archive.h"
#include "cli/client/nouns.h"
#include "cli/cloud/cloud_cluster.h"
#include "cli/cloud/lease_renewer.h"
#include "cli/hosts/host_cluster.h"
#include "cli/open_work.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "common/run/find_program.h"

namespace rt {
namespace {

constexpr Millis kShutdownMax = 60'000;  // Trials stop, sinks flush.
constexpr Millis kGoneMax = 15'000;
constexpr Millis kHold = 10'000;
constexpr int kTriesMax = 5;  // Of the watcher, while the head comes and goes.
constexpr int kRoundsMax = 3;  // While others go on submitting.
constexpr char kKeptLogs[] = "/attempt-logs";  // Of a private cluster, beside its journal.

std::string ReadToEnd(int fd) {
  std::string text;
  char buffer[512];
  while (true) {
    ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || text.size() > 65'536) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

struct Mine {
  uint64_t job = 0, experiment = 0;
  std::string results_root = ResultsRoot();
  bool download = true;
  bool keep = false;
};

Mine ParseMine(const std::string& text) {
  Mine mine;
  for (const std::string& line : Split(text, '\n')) {
    if (line.starts_with("job ")) mine.job = std::strtoull(line.c_str() + 4, nullptr, 10);
    if (line.starts_with("experiment "))
      mine.experiment = std::strtoull(line.c_str() + 11, nullptr, 10);
    if (line.starts_with("results ")) mine.results_root = line.substr(8);
    if (line == "no-download") mine.download = false;
    if (line == "keep") mine.keep = true;
  }
  return mine;
}

absl::Status WaitEnded(HeadClient& client, const Mine& mine) {
  while (mine.job != 0) {
    RT_ASSIGN_OR_RETURN(Json job, GetJob(client, mine.job));
    if (IsTerminal(job.GetString("state"))) break;
    v1::WaitJobRequest request;
    request.set_job(mine.job);
    request.set_seen_state(job.GetString("state"));
    request.set_hold_ms(kHold);
    client.Ask<v1::JobService>(&v1::JobService::Stub::Wait, request, kHold).IgnoreError();
  }
  while (mine.experiment != 0) {
    RT_ASSIGN_OR_RETURN(Json experiment, GetExperiment(client, mine.experiment));
    if (IsTerminal(experiment.GetString("state"))) break;
    SleepFor(500);
  }
  return absl::OkStatus();
}

// FailedPrecondition when the request refuses to disturb what is open; whatever else the head says,
// nothing is left.
absl::Status ShutDown(HeadClient& client, const LocalCluster& cluster,
                      const v1::ShutdownRequest& request) {
  absl::Status asked =
      client.Call<v1::ClusterService>(&v1::ClusterService::Stub::Shutdown, request, kShutdownMax)
          .status();
  if (absl::IsFailedPrecondition(asked)) return asked;
  if (absl::IsDeadlineExceeded(asked)) SayLines("", {MessageOf(asked)});
  // From here on no client may find the head dead and start it again.
  RT_RETURN_IF_ERROR(RemoveTree(cluster.directory() + "/up"));
  return cluster.WaitGone(asked.ok() ? kGoneMax : 0);
}

// Brings the items home for which `wanted` answers; what did not come, a line each.
template <class Wanted>
std::vector<std::string> Bring(HeadClient& client, const std::vector<WorkItem>& work,
                               const std::string& results_root, const Wanted& wanted) {
  HomeWish wish{.experiments = {}, .jobs = {}, .results_root = results_root, .job_output = true};
  for (const WorkItem& item : work)
    if (wanted(item)) (item.is_job ? wish.jobs : wish.experiments).push_back(item.id);
  BroughtHome home = BringHome(client, wish);
  SayLines("", home.said);
  for (const WorkItem& item : work)
    if (wanted(item) && item.is_open)
      home.missing.push_back(ToText(item) + " has not ended, or its result files are not written");
  return home.missing;
}

absl::Status NotHome(const std::string& name, const std::vector<std::string>& missing) {
  SayLines("not brought home: ", missing);
  return WithHint(
      absl::FailedPreconditionError(ToAbsl(
          "cluster '" + name + "' stays up: " + std::to_string(missing.size()) +
          (missing.size() == 1 ? " thing" : " things") + " could not be brought home")),
      "mend that and repeat, or fetch it with 'rt exp download EXP DIR -c " + name +
          "'; 'rt down " + name + " --no-download' takes the cluster down without it");
}

Json EndedItem(const WorkItem& item, const char* state) {
  return Json::MakeObject(
      {{"id", item.id}, {"kind", item.is_job ? "job" : "experiment"}, {"state", state}});
}

// One round of ending what is open, and what comes home from it. Nothing has been ended when what
// was over before cannot come home.
absl::Status EndWork(HeadClient& client, const std::string& name, const TearDownOptions& options,
                     Json& ended) {
  RT_ASSIGN_OR_RETURN(std::vector<WorkItem> work, ListWork(client));
  std::vector<std::string> open;
  for (const WorkItem& item : work)
    if (item.is_open) open.push_back(ToText(item));
  if (options.download) {
    std::vector<std::string> missing = Bring(client, work, options.results_root,
                                             [](const WorkItem& item) { return !item.is_open; });
    if (!missing.empty()) return NotHome(name, missing);
  }
  SayLines("ending ", open);
  for (const WorkItem& item : work)
    if (item.is_open) ended.Append(EndedItem(item, "STOPPING"));
  if (open.empty() || !options.download) return absl::OkStatus();
  if (absl::Status stopped = StopWork(client); absl::IsDeadlineExceeded(stopped))
    SayLines("", {MessageOf(stopped)});
  else RT_RETURN_IF_ERROR(stopped);
  std::set<std::string> were_open(open.begin(), open.end());
  RT_ASSIGN_OR_RETURN(work, ListWork(client));
  std::vector<std::string> missing =
      Bring(client, work, options.results_root,
            [&](const WorkItem& item) { return were_open.contains(ToText(item)); });
  return missing.empty() ? absl::OkStatus() : NotHome(name, missing);
}

absl::Status EndCluster(HeadClient& client, const LocalCluster& cluster, const std::string& name,
                        const TearDownOptions& options, Json& ended) {
  for (int round = 0; round < kRoundsMax; ++round) {
    RT_RETURN_IF_ERROR(EndWork(client, name, options, ended));
    v1::ShutdownRequest request;
    request.set_only_if_idle(options.download);  // What came since has not been brought home.
    absl::Status down = ShutDown(client, cluster, request);
    if (!absl::IsFailedPrecondition(down)) return down;
  }
  return absl::UnavailableError("jobs and experiments come faster than they can be ended");
}

enum class Use { kIdle, kMine, kOthers };

// What is still open on the cluster: nothing, only what our own job left behind, or other work too.
Use UseOf(const std::vector<WorkItem>& work, const Mine& mine) {
  Use use = Use::kIdle;
  for (const WorkItem& item : work) {
    if (!item.is_open) continue;
    const bool same = item.is_job ? item.id == mine.job
                                  : item.id == mine.experiment ||
                                        (item.job != 0 && item.job == mine.job);
    if (!same) return Use::kOthers;
    use = Use::kMine;
  }
  return use;
}

std::string WhyFile(const std::string& cluster_directory) { return cluster_directory + "/kept"; }

// Written for the client that waits for the watcher, and for one that finds the cluster up later.
absl::Status NoteWhyKept(const Home& home, const std::string& name,
                         const std::vector<std::string>& lines) {
  const std::string directory = home.ClusterDirectory(name);
  if (Exists(directory))
    RT_RETURN_IF_ERROR(WriteFileAtomic(WhyFile(directory), Join(lines, "\n"), {.sync = false}));
  return absl::FailedPreconditionError(ToAbsl(Join(lines, "; ")));
}

// The daemons have ended, or will not by themselves: nothing of the cluster stays here or on its
// hosts; what it leaves is the archive of a local one.
absl::Status ClearAway(const Home& home, const std::string& name) {
  if (CloudCluster::IsKnown(home, name)) {
    RT_ASSIGN_OR_RETURN(CloudCluster cloud, CloudCluster::Load(home, name));
    return cloud.Remove();
  }
  if (!HostCluster::IsKnown(home, name)) return ArchiveCluster(home, name).status();
  RT_ASSIGN_OR_RETURN(HostCluster hosts, HostCluster::Load(home, name));
  return hosts.Remove(false);
}

absl::Status TearDownUnlessUsed(const std::string& name, const Mine& mine) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  const LocalCluster cluster(home.ClusterDirectory(name));
  if (mine.keep) return absl::OkStatus();
  if (!home.IsUp(name)) {  // Its client vanished before it was up.
    RT_RETURN_IF_ERROR(cluster.WaitGone(0));
    return ClearAway(home, name);
  }
  RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, name));
  RT_RETURN_IF_ERROR(WaitEnded(*client, mine));
  RT_ASSIGN_OR_RETURN(std::vector<WorkItem> work, ListWork(*client));
  const Use use = UseOf(work, mine);
  if (use == Use::kOthers) return absl::OkStatus();
  if (use == Use::kMine) {
    absl::Status stopped = StopWork(*client);
    if (!absl::IsDeadlineExceeded(stopped)) RT_RETURN_IF_ERROR(stopped);
    RT_ASSIGN_OR_RETURN(work, ListWork(*client));
  }
  if (mine.download) {
    std::vector<std::string> missing =
        Bring(*client, work, mine.results_root, [](const WorkItem&) { return true; });
    if (!missing.empty()) {
      for (std::string& line : missing) line = "not brought home: " + line;
      return NoteWhyKept(home, name, missing);
    }
  }
  // The head itself looks once more: somebody may just have submitted.
  v1::ShutdownRequest request;
  request.set_only_if_idle(mine.download || use == Use::kIdle);
  absl::Status down = ShutDown(*client, cluster, request);
  if (absl::IsFailedPrecondition(down)) return absl::OkStatus();
  RT_RETURN_IF_ERROR(down);
  return ClearAway(home, name);
}

std::string KeepFile(const std::string& cluster_directory) { return cluster_directory + "/keep"; }

// Whole under its name, or not there. What was there before is replaced.
absl::Status ReplaceTree(const std::string& from, const std::string& to) {
  const std::string part = to + ".part";
  RT_RETURN_IF_ERROR(RemoveTree(part));
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(to).parent_path(), error);
  std::filesystem::copy(from, part, std::filesystem::copy_options::recursive, error);
  if (!error) RT_RETURN_IF_ERROR(RemoveTree(to));
  if (!error) std::filesystem::rename(part, to, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(ToAbsl("copy " + from + " to " + to + ": " + error.message()));
}

// What the attempts of a private cluster printed, from its workers into its head's directory, where
// it is kept with the journal.
void MoveLogs(const std::string& cluster_directory) {
  namespace fs = std::filesystem;
  const std::string kept = cluster_directory + "/head" + kKeptLogs;
  std::error_code error;
  fs::create_directories(kept, error);
  for (const auto& worker : fs::directory_iterator(cluster_directory, error)) {
    if (!worker.path().filename().string().starts_with("worker-")) continue;
    std::error_code absent;
    for (const char* folder : {"logs", "attempts"})
      for (const auto& attempt : fs::directory_iterator(worker.path() / folder, absent)) {
        const fs::path target = fs::path(kept) / attempt.path().filename();
        for (const auto& file : fs::directory_iterator(attempt.path(), absent)) {
          const std::string name = file.path().filename().string();
          const bool is_log = name.starts_with("stdout.") || name.starts_with("stderr.");
          if (!is_log || !name.ends_with(".log") || file.is_symlink(absent)) continue;
          fs::create_directories(target, absent);
          fs::rename(file.path(), target / name, absent);
        }
      }
  }
}

// Call it when the daemons have ended.
absl::Status KeepState(const std::string& cluster_directory) {
  absl::StatusOr<std::string> path = ReadFile(KeepFile(cluster_directory), 4096);
  const std::string head = cluster_directory + "/head";
  if (!path.ok() || path->empty() || !Exists(head + "/journal.db")) return absl::OkStatus();
  for (const char* name : {"/address", "/pid", "/log"}) RT_RETURN_IF_ERROR(RemoveTree(head + name));
  MoveLogs(cluster_directory);
  return ReplaceTree(head, *path);
}

}  // namespace

absl::Status SetKeptState(const std::string& cluster_directory, const std::string& path) {
  if (path.empty()) return RemoveTree(KeepFile(cluster_directory));
  return WriteFileAtomic(KeepFile(cluster_directory), path, {.sync = false});
}

absl::Status TakeKeptState(const std::string& path, const std::string& cluster_directory) {
  if (!Exists(path + "/journal.db"))
    return WithHint(NotFound("no state of a search was kept in " + path),
                    "it is kept when a search was interrupted, or trials failed");
  RT_RETURN_IF_ERROR(SetKeptState(cluster_directory, path));
  const std::string head = cluster_directory + "/head", worker = cluster_directory + "/worker-1";
  RT_RETURN_IF_ERROR(ReplaceTree(path, head));
  if (!Exists(head + kKeptLogs)) return absl::OkStatus();  // An older release kept none.
  RT_RETURN_IF_ERROR(EnsureDirectory(worker));
  std::error_code error;
  std::filesystem::rename(head + kKeptLogs, worker + "/logs", error);
  return error ? ErrnoStatus(error.value(), "rename " + head + kKeptLogs) : absl::OkStatus();
}

absl::Status ShutDown(HeadClient& client, const LocalCluster& cluster) {
  return ShutDown(client, cluster, v1::ShutdownRequest());
}

// Brings home from a head on another machine, and ends it with what it has started. `head`: whether
// it can be reached.
static absl::Status EndElsewhere(const Home& home, const std::string& name,
                                 const TearDownOptions& options, const absl::Status& head,
                                 Json& ended) {
  if (!head.ok() && options.download)
    return WithHint(absl::FailedPreconditionError(
                        ToAbsl("results may be on the host of the head: " + MessageOf(head))),
                    "mend that and repeat; 'rt down " + name +
                        " --no-download' removes the cluster without them");
  if (!head.ok()) SayLines("", {MessageOf(head) + ": nothing of it could be brought home"});
  if (!home.IsUp(name) || !head.ok()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, name));
  const LocalCluster here(home.ClusterDirectory(name));
  return EndCluster(*client, here, name, options, ended);
}

static absl::StatusOr<TornDown> TearDownHosts(const Home& home, const std::string& name,
                                              const TearDownOptions& options) {
  TornDown result;
  RT_ASSIGN_OR_RETURN(HostCluster hosts, HostCluster::Load(home, name));
  const absl::Status head = home.IsUp(name) ? hosts.EnsureHead() : absl::OkStatus();
  RT_RETURN_IF_ERROR(EndElsewhere(home, name, options, head, result.ended));
  RT_RETURN_IF_ERROR(hosts.Remove(options.purge));
  return result;
}

static absl::StatusOr<TornDown> TearDownCloud(const Home& home, const std::string& name,
                                              const TearDownOptions& options) {
  TornDown result;
  RT_ASSIGN_OR_RETURN(CloudCluster cloud, CloudCluster::Load(home, name));
  const LeaseRenewer lease(home, name);  // A download may take longer than the head would wait.
  ReachFailpoint("client.down.before_head");
  const absl::Status head = cloud.EnsureHead();
  if (absl::IsNotFound(head)) {
    SayLines("", {MessageOf(head) + ": nothing of it could be brought home"});
  } else {
    RT_RETURN_IF_ERROR(EndElsewhere(home, name, options, head, result.ended));
  }
  RT_RETURN_IF_ERROR(cloud.Remove());
  return result;
}

absl::StatusOr<TornDown> TearDown(const Home& home, const std::string& name,
                                  const TearDownOptions& options) {
  if (CloudCluster::IsKnown(home, name)) return TearDownCloud(home, name, options);
  if (HostCluster::IsKnown(home, name)) return TearDownHosts(home, name, options);
  const LocalCluster cluster(home.ClusterDirectory(name));
  TornDown result;
  const bool was_there = Exists(cluster.directory());
  if (home.IsUp(name)) {
    RT_RETURN_IF_ERROR(RemoveTree(WhyFile(cluster.directory())));
    absl::StatusOr<std::unique_ptr<HeadClient>> client = ConnectTo(home, name);
    if (client.ok()) {
      RT_RETURN_IF_ERROR(EndCluster(**client, cluster, name, options, result.ended));
    } else if (options.purge && options.download) {
      return NotHome(name, {MessageOf(client.status())});
    } else {
      SayLines("", {MessageOf(client.status()) + ": nothing of it could be brought home"});
    }
  }
  RT_RETURN_IF_ERROR(cluster.WaitGone(0));
  if (options.purge) {
    result.left = PlacesElsewhere(was_there ? cluster.directory() : ArchiveDirectory(home, name));
    RT_ASSIGN_OR_RETURN(const bool was_archived, DeleteArchive(home, name));
    RT_RETURN_IF_ERROR(home.Forget(name));
    result.purged = was_archived || was_there;
    return result;
  }
  RT_ASSIGN_OR_RETURN(const bool archived, ArchiveCluster(home, name));
  if (archived) result.archive = ArchiveDirectory(home, name);
  return result;
}

absl::Status UndoBringUp(const Home& home, const std::string& name, bool had_history) {
  const LocalCluster cluster(home.ClusterDirectory(name));
  if (cluster.HeadIsAlive())
    if (absl::StatusOr<std::unique_ptr<HeadClient>> client = ConnectTo(home, name); client.ok())
      RT_RETURN_IF_ERROR(ShutDown(**client, cluster));
  RT_RETURN_IF_ERROR(cluster.WaitGone(0));
  return had_history ? ArchiveCluster(home, name).status() : home.Forget(name);
}

std::string WhyKept(const Home& home, const std::string& name) {
  absl::StatusOr<std::string> text = ReadFile(WhyFile(home.ClusterDirectory(name)), 1 << 20);
  return text.ok() ? *text : "";
}

absl::StatusOr<Watcher> Watcher::Start(const std::string& verb, const std::string& argument) {
  RT_ASSIGN_OR_RETURN(std::string binaries, BinaryDirectory());
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  SpawnOptions options;
  options.argv = {binaries + "/rt", "__teardown", verb, argument};
  options.cwd = "/";
  options.fds = {{null, 0}, {null, 1}, {null, 2}, {pipe_fds[0], 3}};
  options.setsid = true;
  absl::StatusOr<Subprocess> child = Subprocess::Spawn(options);
  close(null);
  close(pipe_fds[0]);
  if (!child.ok()) {
    close(pipe_fds[1]);
    return Annotate(child.status(), "start the watcher");
  }
  return Watcher(pipe_fds[1], *std::move(child));
}

absl::StatusOr<Watcher> Watcher::ForCluster(const std::string& name) {
  return Start("cluster", name);
}
absl::StatusOr<Watcher> Watcher::ForDirectory(const std::string& directory) {
  return Start("directory", directory);
}
Watcher::Watcher(Watcher&& other) noexcept : fd_(other.fd_), child_(std::move(other.child_)) {
  other.fd_ = -1;
}
Watcher::~Watcher() {
  if (fd_ >= 0) close(fd_);
}

void Watcher::Say(const std::string& line) {
  std::string text = line + "\n";
  // Shorter than PIPE_BUF, so it is written whole; a dead watcher shows in Finish.
  if (write(fd_, text.data(), text.size()) < 0) return;
}

absl::Status Watcher::Finish(Millis wait_for) {
  close(fd_);
  fd_ = -1;
  std::optional<ExitStatus> exit = child_.Wait(wait_for);
  if (!exit.has_value()) return absl::DeadlineExceededError("the cluster is still going down");
  if (!exit->ok()) return absl::InternalError(ToAbsl("taking down: " + ToString(*exit)));
  return absl::OkStatus();
}

int RunWatcher(const std::string& verb, const std::string& argument) {
  for (int signal_number : {SIGHUP, SIGINT, SIGTERM, SIGPIPE}) signal(signal_number, SIG_IGN);
  // The head counts this process as the client that waits for the cluster.
  std::optional<LeaseRenewer> lease;
  if (verb == "cluster")
    if (const absl::StatusOr<Home> home = Home::Open(); home.ok()) lease.emplace(*home, argument);
  std::string said = ReadToEnd(3);
  absl::Status status = absl::OkStatus();
  if (verb == "cluster") {
    status = TearDownUnlessUsed(argument, ParseMine(said));
    for (int i = 1; i < kTriesMax && absl::IsUnavailable(status); ++i) {
      SleepFor(1'000);
      status = TearDownUnlessUsed(argument, ParseMine(said));
    }
    // The results that were not downloaded have been noted.
    if (absl::StatusOr<Home> home = Home::Open(); home.ok() && !status.ok())
      if (WhyKept(*home, argument).empty())
        NoteWhyKept(*home, argument, {MessageOf(status)}).IgnoreError();
  } else {
    status = LocalCluster(argument).WaitGone(kGoneMax);
    status.Update(KeepState(argument));
    status.Update(RemoveTree(argument));
  }
  return status.ok() ? 0 : 1;
}

}  // namespace rt
