#include "worker/launch/warm_servers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "common/run/random.h"
#include "common/run/unix_address.h"
#include "worker/launch/node_rules.h"
#include "worker/launch/work_dir.h"
#include "worker/limits/memory_file.h"
#include "worker/shim/fork_shims.h"
#include "worker/shim/send_with.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr Millis kStopWait = 2'000;
// Of one attempt, not of a trainable; the child sets them.
constexpr const char* kOfAttempt[] = {
    "RT_EXPERIMENT_ID",  "RT_EXPERIMENT_NAME", "RT_TRIAL_ID",    "RT_ATTEMPT",       "RT_CONFIG",
    "RT_SOCKET",         "RT_TOKEN",           "RT_TRIAL_DIR",   "RT_TRIAL_NAME",    "RT_RESOURCES",
    "RT_CHECKPOINT_DIR", "RT_MAX_T",           "RANK",           "WORLD_SIZE",       "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",  "NODE_RANK",          "GROUP_RANK",     "GROUP_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT",       "RT_GENERATION",      "RT_EXECUTOR_ID", "RT_ASSIGNED"};
constexpr const char* kGpus = "CUDA_VISIBLE_DEVICES";
// The server's environment must have room for that of an attempt: the child writes it there, so
// that /proc shows it as it would for a fresh process.
constexpr size_t kReservedEnvBytes = 4'096;

std::string Fields(const std::vector<std::string>& texts) {
  std::string message;
  for (const std::string& text : texts) message.append(text).push_back('\0');
  return message;
}

// What an import sees of gpus differs only by whether the attempt has any: a server of attempts
// with gpus sees all of the node's.
bool IsOfAttempt(const LaunchBody& body, std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  if (name == kGpus) return !body.gpu_uuids.empty();
  return std::any_of(std::begin(kOfAttempt), std::end(kOfAttempt),
                     [&](std::string_view one) { return one == name; });
}

absl::StatusOr<int> Connect(const std::string& path) {
  RT_ASSIGN_OR_RETURN(sockaddr_un address, UnixAddress(path));
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  absl::Status failed = ErrnoStatus(errno, "connect to " + path);
  ::close(fd);
  return failed;
}

absl::StatusOr<int> Listen(const std::string& path) {
  RT_ASSIGN_OR_RETURN(sockaddr_un address, UnixAddress(path));
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  absl::Status failed = ErrnoStatus(errno, "listen at " + path);
  ::close(fd);
  return failed;
}

// What the server is started with: the attempt's, without what is the attempt's own.
std::string ServerSpec(const LaunchBody& body, const std::string& cwd,
                       const std::string& directory) {
  std::vector<std::string> fields = Split(body.shim_spec, '\0');
  std::vector<std::string> env;
  const size_t count = std::strtoull(fields.at(body.argv.size() + 1).c_str(), nullptr, 10);
  for (size_t i = 0; i < count; ++i) {
    const std::string& entry = fields.at(body.argv.size() + 2 + i);
    if (!IsOfAttempt(body, entry)) env.push_back(entry);
  }
  env.push_back("RT_RUN_DIR=" + directory);  // By this strays of the cluster are known.
  env.push_back("RT_WARM_SERVER=3");
  env.push_back("RT_WARM_ROOM=" + std::string(kReservedEnvBytes, '.'));
  std::vector<std::string> all = {std::to_string(body.argv.size())};
  all.insert(all.end(), body.argv.begin(), body.argv.end());
  all.push_back(std::to_string(env.size()));
  all.insert(all.end(), env.begin(), env.end());
  all.insert(all.end(), {cwd, directory, "0", "1", ""});
  return Fields(all);
}

}  // namespace

WarmServers::WarmServers(std::string state_dir, std::string runtime_dir, std::string bin_dir,
                         LaunchLock& lock)
    : state_dir_(std::move(state_dir)), runtime_dir_(std::move(runtime_dir)),
      bin_dir_(std::move(bin_dir)), lock_(lock) {
  RemoveLeftovers();
}

WarmServers::~WarmServers() { Stop(); }

// Of daemons before us: groups that still have trials keep theirs.
void WarmServers::RemoveLeftovers() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(state_dir_ + "/warm", error)) {
    const std::string socket = runtime_dir_ + "/warm-" + entry.path().filename().string();
    if (auto alive = Connect(socket); alive.ok()) {
      ::close(*alive);
      continue;
    }
    ::unlink(socket.c_str());
    if (absl::Status removed = RemoveTree(entry.path().string()); !removed.ok()) {
      RT_LOG(kWarning) << MessageOf(removed);
    }
  }
}

std::string WarmServers::KeyOf(const LaunchBody& body) {
  std::vector<std::string> parts = {body.bundle, body.cwd};
  for (const std::string& word : body.argv) parts.push_back(word);
  for (const InputFile& input : body.inputs) parts.push_back(input.env + "=" + input.manifest);
  for (const auto& [name, value] : body.env) {
    const std::string entry = name + "=" + value;
    if (!IsOfAttempt(body, entry)) parts.push_back(entry);
  }
  parts.push_back(body.gpu_uuids.empty() ? "" : kGpus);
  return Fields(parts);
}

bool WarmServers::Wants(const LaunchBody& body) {
  const size_t words = body.argv.size();
  if (words < 3 || body.argv[words - 2] != "-m") return false;
  const std::string_view module = RulesOf(body.fence.attempt.owner).warm_module;
  if (module.empty() || body.argv[words - 1] != module) return false;
  {
    std::lock_guard lock(mutex_);
    if (refused_.contains(KeyOf(body))) return false;
  }
  const char* ours = std::getenv("RT_WARM_START");
  auto theirs = body.env.find("RT_WARM_START");
  const std::string chosen = theirs != body.env.end() ? theirs->second : ours ? ours : "";
  std::string why;
  if (chosen == "0") why = "RT_WARM_START=0";
  if (!why.empty()) Refuse(body, why);
  return why.empty();
}

void WarmServers::Refuse(const LaunchBody& body, const std::string& why) {
  std::lock_guard lock(mutex_);
  if (refused_.size() >= limits::kWarmRefusalsMax) refused_.clear();
  if (refused_.insert(KeyOf(body)).second) {
    RT_LOG(kInfo) << rt::ToString(body.fence) << ": cold start, as will be all of this program "
                  << "here: " << EscapeControl(why);
  }
}

absl::StatusOr<WarmServers::Group*> WarmServers::GroupFor(const LaunchBody& body,
                                                          const std::string& tree,
                                                          std::unique_lock<std::mutex>& lock) {
  const std::string key = KeyOf(body);
  changed_.wait(lock, [&] { return !starting_.contains(key); });
  if (auto found = open_.find(key); found != open_.end()) return &groups_.at(found->second);
  const std::string name = RandomHex(6);
  Group group{.key = key,
              .socket = runtime_dir_ + "/warm-" + name,
              .directory = state_dir_ + "/warm/" + name};
  starting_.insert(key);
  lock.unlock();  // The bundle may be large, and the worker's loop asks for Tick and Release.
  absl::Status started = StartGroup(group, body, tree);
  lock.lock();
  starting_.erase(key);
  changed_.notify_all();
  RT_RETURN_IF_ERROR(started);
  while (open_.size() >= limits::kWarmServersMax) {
    auto oldest = std::min_element(open_.begin(), open_.end(), [&](const auto& a, const auto& b) {
      return groups_.at(a.second).used_at < groups_.at(b.second).used_at;
    });
    Retire(groups_.at(oldest->second));
  }
  open_[key] = group.socket;
  const std::string socket = group.socket;
  return &groups_.emplace(socket, std::move(group)).first->second;
}

absl::Status WarmServers::StartGroup(Group& group, const LaunchBody& body,
                                     const std::string& tree) {
  RT_RETURN_IF_ERROR(EnsureDirectory(group.directory));
  RT_ASSIGN_OR_RETURN(const int lock, lock_.Hold());
  RT_ASSIGN_OR_RETURN(const std::string cwd, MakeWorkDir(body, tree, group.directory + "/work"));
  RT_ASSIGN_OR_RETURN(int spec, MemoryFile(ServerSpec(body, cwd, group.directory)));
  auto listener = Listen(group.socket);
  int keeper[2] = {-1, -1};
  absl::Status ready = listener.status();
  if (ready.ok() && ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, keeper) != 0) {
    ready = ErrnoStatus(errno, "socketpair");
  }
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (ready.ok()) {
    auto shim = Subprocess::Spawn(
        {.argv = {bin_dir_ + "/rt-shim", "--group", group.directory, group.socket},
         .cwd = group.directory,
         .fds =
             {{spec, 0}, {null, 1}, {null, 2}, {*listener, 3}, {keeper[1], 4}, {lock, kLaunchLock}},
         .setsid = true});
    ready = shim.status();
    if (shim.ok()) group.shim.emplace(std::move(*shim));
  }
  for (int fd : {spec, null, listener.ok() ? *listener : -1, keeper[1]}) {
    if (fd >= 0) ::close(fd);
  }
  group.keeper = keeper[0];
  if (!ready.ok() && group.keeper >= 0) ::close(group.keeper);
  return Annotate(ready, "start a warm-start server");
}

absl::StatusOr<int> WarmServers::Launch(const LaunchBody& body, const std::string& run_dir,
                                        const std::string& tree) {
  std::unique_lock lock(mutex_);
  RT_ASSIGN_OR_RETURN(int spec, MemoryFile(body.shim_spec));
  auto group = GroupFor(body, tree, lock);
  auto connection = group.ok() ? Connect((*group)->socket) : absl::StatusOr<int>(group.status());
  if (connection.ok()) {
    const std::string request =
        Fields({"launch", run_dir, body.token, std::to_string(limits::kLogFileBytesMax),
                std::to_string(limits::kLogFilesKept), body.cgroup});
    if (!SendWith(*connection, request, {spec})) {
      absl::Status failed = ErrnoStatus(errno, "ask the warm-start server");
      ::close(*connection);
      connection = failed;
    }
  }
  ::close(spec);
  if (!group.ok()) return group.status();
  if (!connection.ok()) {  // It was killed: the next launch gets another one.
    Retire(**group);
    return connection.status();
  }
  (*group)->used_at = WallClock();
  ++(*group)->attempts;
  users_[body.fence] = (*group)->socket;
  return connection;
}

std::optional<WarmServers::Reply> WarmServers::ReadReply(int connection) {
  char bytes[4'096];
  const ssize_t count = ::recv(connection, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (count <= 0) return Reply{.ended = true};
  const std::string text(bytes, static_cast<size_t>(count));
  const size_t space = std::min(text.find(' '), text.size());
  Reply reply{.why = text.substr(std::min(space + 1, text.size()))};
  if (text.starts_with("program ")) reply.pid = std::strtoull(text.c_str() + space, nullptr, 10);
  reply.refused = text.starts_with("refused ");
  return reply;
}

void WarmServers::Cancel(int connection) {
  const std::string message = Fields({"cancel"});
  ::send(connection, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int WarmServers::Watch(const std::string& group_socket, const std::string& run_dir) {
  auto connection = Connect(group_socket);
  if (!connection.ok()) return -1;
  const std::string message = Fields({"watch", run_dir});
  ::send(*connection, message.data(), message.size(), MSG_NOSIGNAL);
  return *connection;
}

void WarmServers::Release(const Fence& fence) {
  std::lock_guard lock(mutex_);
  auto user = users_.find(fence);
  if (user == users_.end()) return;
  if (auto group = groups_.find(user->second); group != groups_.end()) {
    --group->second.attempts;
    group->second.used_at = WallClock();
  }
  users_.erase(user);
}

void WarmServers::Retire(Group& group) {
  if (group.keeper < 0) return;
  ::close(group.keeper);
  group.keeper = -1;
  open_.erase(group.key);
}

void WarmServers::Tick(Millis now) {
  std::lock_guard lock(mutex_);
  for (auto& [socket, group] : groups_) {
    pollfd keeper{group.keeper, POLLIN, 0};
    const bool gone = group.keeper >= 0 && ::poll(&keeper, 1, 0) > 0;
    const bool idle = group.attempts == 0 && now - group.used_at > limits::kWarmIdle;
    if (gone || idle) Retire(group);
  }
  ForgetEnded();
}

void WarmServers::ForgetEnded() {
  for (auto at = groups_.begin(); at != groups_.end();) {
    Group& group = at->second;
    if (group.keeper >= 0 || (group.shim && !group.shim->Wait(0))) {
      ++at;
      continue;
    }
    ::unlink(group.socket.c_str());
    if (absl::Status removed = RemoveTree(group.directory); !removed.ok()) {
      RT_LOG(kWarning) << MessageOf(removed);
    }
    at = groups_.erase(at);
  }
}

void WarmServers::Stop() {
  std::lock_guard lock(mutex_);
  for (auto& [socket, group] : groups_) Retire(group);
  for (auto& [socket, group] : groups_) {
    if (group.attempts == 0 && group.shim) group.shim->Wait(kStopWait);
  }
  ForgetEnded();
}

}  // namespace rt::worker
