#include "cli/teardown.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cli/commands/common.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Millis kShutdownMax = 60'000;  // Trials stop, sinks flush.
constexpr Millis kGoneMax = 15'000;
constexpr Millis kHold = 10'000;
constexpr int kTriesMax = 5;  // Of the watcher, while the head comes and goes.

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
};

Mine ParseMine(const std::string& text) {
  Mine mine;
  for (const std::string& line : Split(text, '\n')) {
    if (line.starts_with("job ")) mine.job = std::strtoull(line.c_str() + 4, nullptr, 10);
    if (line.starts_with("experiment "))
      mine.experiment = std::strtoull(line.c_str() + 11, nullptr, 10);
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
  // From here on no client may find the head dead and start it again.
  RT_RETURN_IF_ERROR(RemoveTree(cluster.directory() + "/up"));
  return cluster.WaitGone(asked.ok() ? kGoneMax : 0);
}

enum class Use { kIdle, kMine, kOthers };

// Who still lives on the cluster: nobody, only what our own job left behind, or others as well.
absl::StatusOr<Use> UseOf(HeadClient& client, const Mine& mine) {
  RT_ASSIGN_OR_RETURN(Json jobs, ListJobs(client));
  RT_ASSIGN_OR_RETURN(Json experiments, ListExperiments(client));
  auto is_mine = [](const Json& item, const char* key, uint64_t id) {
    return id != 0 && item.GetInt(key) == static_cast<int64_t>(id);
  };
  if (const Json* items = jobs.Find("items"))
    for (const Json& job : items->array())
      if (!IsTerminal(job.GetString("state")) && !is_mine(job, "id", mine.job))
        return Use::kOthers;
  Use use = Use::kIdle;
  if (const Json* items = experiments.Find("items"))
    for (const Json& experiment : items->array()) {
      if (IsTerminal(experiment.GetString("state"))) continue;
      bool ours = is_mine(experiment, "id", mine.experiment) ||
                  is_mine(experiment, "job_id", mine.job);
      if (!ours) return Use::kOthers;
      use = Use::kMine;
    }
  return use;
}

absl::Status TearDownUnlessUsed(const std::string& name, const Mine& mine) {
  RT_ASSIGN_OR_RETURN(Home home, Home::Open());
  if (!home.IsUp(name)) return TearDown(home, name);  // Its client vanished before it was up.
  RT_ASSIGN_OR_RETURN(auto client, ConnectTo(home, name));
  RT_RETURN_IF_ERROR(WaitEnded(*client, mine));
  RT_ASSIGN_OR_RETURN(Use use, UseOf(*client, mine));
  if (use == Use::kOthers) return absl::OkStatus();
  if (use == Use::kIdle) {
    // The head itself looks once more: somebody may just have submitted.
    v1::ShutdownRequest request;
    request.set_only_if_idle(true);
    absl::Status down = ShutDown(*client, LocalCluster(home.ClusterDirectory(name)), request);
    if (absl::IsFailedPrecondition(down)) return absl::OkStatus();
    RT_RETURN_IF_ERROR(down);
    return home.Forget(name);
  }
  return TearDown(home, name);
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

// The daemons are gone.
absl::Status KeepState(const std::string& cluster_directory) {
  absl::StatusOr<std::string> path = ReadFile(KeepFile(cluster_directory), 4096);
  const std::string head = cluster_directory + "/head";
  if (!path.ok() || path->empty() || !Exists(head + "/journal.db")) return absl::OkStatus();
  for (const char* name : {"/address", "/pid", "/log"}) RT_RETURN_IF_ERROR(RemoveTree(head + name));
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
  return ReplaceTree(path, cluster_directory + "/head");
}

absl::Status ShutDown(HeadClient& client, const LocalCluster& cluster) {
  return ShutDown(client, cluster, v1::ShutdownRequest());
}

absl::Status TearDown(const Home& home, const std::string& name) {
  LocalCluster cluster(home.ClusterDirectory(name));
  if (home.IsUp(name)) {
    absl::StatusOr<std::unique_ptr<HeadClient>> client = ConnectTo(home, name);
    if (client.ok()) RT_RETURN_IF_ERROR(ShutDown(**client, cluster));
  }
  RT_RETURN_IF_ERROR(cluster.WaitGone(0));
  return home.Forget(name);
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
  std::string said = ReadToEnd(3);
  absl::Status status = absl::OkStatus();
  if (verb == "cluster") {
    status = TearDownUnlessUsed(argument, ParseMine(said));
    for (int i = 1; i < kTriesMax && absl::IsUnavailable(status); ++i) {
      SleepFor(1'000);
      status = TearDownUnlessUsed(argument, ParseMine(said));
    }
  } else {
    status = LocalCluster(argument).WaitGone(kGoneMax);
    status.Update(KeepState(argument));
    status.Update(RemoveTree(argument));
  }
  return status.ok() ? 0 : 1;
}

}  // namespace rt
