#include "worker/shim/shim_group.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <memory>

#include "worker/shim/fork_shims.h"
#include "worker/shim/send_with.h"

namespace rt::worker {
namespace {

constexpr int kListener = 3;
constexpr int kKeeper = 4;
constexpr size_t kMessageBytesMax = 16 << 10;
constexpr size_t kPreambleBytesMax = 64 << 10;  // What an import prints, repeated to each attempt.
constexpr int kSweepMs = 1;
constexpr int kEndLooks = 200;  // At a server that ends, one each millisecond.

// What the server printed before it was ready: a cold start would have printed it as well.
struct Preamble {
  std::string text;
  bool open = true;
  void Write(const char* data, size_t size) {
    if (open) text.append(data, std::min(size, kPreambleBytesMax - text.size()));
  }
};

enum class Stage { kQueued, kForwarded, kRunning, kEnding };

struct Attempt {
  unsigned long long id = 0;
  Stage stage = Stage::kQueued;
  std::vector<int> connections;  // Who waits for its end; the first one sent the launch.
  int spec = -1;
  std::string directory;
  std::string token;
  std::string cgroup;
  std::unique_ptr<ShimRecord> record;
  Pipe out;
  Pipe err;
  std::unique_ptr<SegmentedLog> out_log;
  std::unique_ptr<SegmentedLog> err_log;
  pid_t pid = 0;
  Ending ending;
};

bool Send(int fd, const std::string& text, const std::vector<int>& fds = {}) {
  return SendWith(fd, text, fds, MSG_DONTWAIT);
}

struct Received {
  bool any = false;
  bool end = false;
  std::string text;
  int fd = -1;
};
Received Receive(int fd) {
  char bytes[kMessageBytesMax];
  iovec data{bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  Received received;
  if (count < 0) {
    received.end = errno != EAGAIN && errno != EINTR;
    return received;
  }
  received.end = count == 0;
  received.any = count > 0;
  received.text.assign(bytes, static_cast<size_t>(count));
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) {
      std::memcpy(&received.fd, CMSG_DATA(at), sizeof received.fd);
    }
  }
  return received;
}

class Group {
 public:
  Group(const Spec& spec, std::string socket_path, int signals)
      : spec_(spec), socket_path_(std::move(socket_path)), signals_(signals) {}

  int Run() {
    for (int fd : {kListener, kKeeper, kLaunchLock}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(kListener, F_SETFL, O_NONBLOCK);
    identity_ = IdentityOf(::getpid());
    boot_ = BootId();
    const std::string failed = StartServer();
    if (!failed.empty()) Refuse(failed);
    while (!closing_ || !attempts_.empty() || control_ >= 0 || !Children().empty()) {
      RunOnce();
      if (closing_ && control_ < 0) Close(lock_);
    }
    ::unlink(socket_path_.c_str());
    return 0;
  }

 private:
  // "" or why there is no server.
  std::string StartServer() {
    Pipe out;
    Pipe err;
    Pipe status;
    int ends[2];
    int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!out.Open() || !err.Open() || !status.Open() ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      return std::strerror(errno);
    }
    server_ = ::fork();
    if (server_ < 0) return std::string("fork: ") + std::strerror(errno);
    if (server_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      RunChild(Program(spec_), {null, out.write, err.write, ends[1]}, status.write);
    }
    for (int fd : {null, out.write, err.write, status.write, ends[1]}) ::close(fd);
    control_ = ends[0];
    server_out_ = out.read;
    server_err_ = err.read;
    ::fcntl(server_out_, F_SETFL, O_NONBLOCK);
    ::fcntl(server_err_, F_SETFL, O_NONBLOCK);
    StartFailure failure;
    const bool failed = ::read(status.read, &failure, sizeof failure) == sizeof failure;
    ::close(status.read);
    return failed ? ToString(failure, spec_) : "";
  }

  // One look at everything that may have happened.
  void RunOnce() {
    std::vector<pollfd> fds;
    for (int fd : {signals_, control_, server_out_, server_err_, kListener}) {
      fds.push_back({fd, POLLIN, 0});
    }
    if (!closing_) fds.push_back({kKeeper, POLLIN, 0});
    for (int fd : fresh_) fds.push_back({fd, POLLIN, 0});
    bool ending = closing_ && attempts_.empty();
    for (const auto& [id, attempt] : attempts_) {
      ending = ending || attempt.stage == Stage::kEnding;
      for (int fd : attempt.connections) fds.push_back({fd, POLLIN, 0});
      for (int fd : {attempt.out.read, attempt.err.read}) fds.push_back({fd, POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), ending ? kSweepMs : -1);
    ReadServerOutput();
    ReadControl();
    Reap();
    ReadControl();  // A child that was reaped may have said before that it started.
    Accept();
    pollfd keeper{kKeeper, POLLIN, 0};
    if (!closing_ && ::poll(&keeper, 1, 0) > 0) End();
    ReadFresh();
    for (unsigned long long id : Ids()) {
      if (attempts_.contains(id)) Visit(attempts_.at(id));
    }
    if (closing_ && attempts_.empty()) KillStrays();
  }

  void ReadServerOutput() {
    if (server_out_ >= 0 && !Copy(server_out_, out_preamble_)) Close(server_out_);
    if (server_err_ >= 0 && !Copy(server_err_, err_preamble_)) Close(server_err_);
  }

  void ReadControl() {
    while (control_ >= 0) {
      Received received = Receive(control_);
      if (received.any) {
        OnServer(received.text);
        continue;
      }
      if (received.end) OnServerGone();
      return;
    }
  }

  void OnServer(const std::string& text) {
    const size_t space = text.find(' ');
    const std::string word = text.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : text.substr(space + 1);
    if (word == "refused") return Refuse(rest);
    if (word == "ready") {
      ReadServerOutput();
      ready_ = true;
      out_preamble_.open = err_preamble_.open = false;
      for (unsigned long long id : Ids(Stage::kQueued)) Forward(attempts_.at(id));
      return;
    }
    char* after = nullptr;
    const unsigned long long id = std::strtoull(rest.c_str(), &after, 10);
    auto found = attempts_.find(id);
    if (found == attempts_.end()) return;
    const std::string what = *after == ' ' ? after + 1 : after;
    if (word == "started") return OnStarted(found->second, std::atoi(what.c_str()));
    if (word == "exit") return OnExit(found->second, std::atoi(what.c_str()));
    if (word == "cold") return OnNotStarted(found->second, "cold " + what);
    if (word == "failed") {
      found->second.ending = LaunchFailed(what);
      found->second.stage = Stage::kEnding;
    }
  }

  void OnStarted(Attempt& attempt, pid_t pid) {
    if (attempt.stage != Stage::kForwarded) return;
    attempt.stage = Stage::kRunning;
    attempt.pid = pid;
    for (auto [log, preamble] : {std::pair{attempt.out_log.get(), &out_preamble_},
                                 std::pair{attempt.err_log.get(), &err_preamble_}}) {
      if (!preamble->text.empty()) log->Write(preamble->text.data(), preamble->text.size());
    }
    const std::string start = StatField(pid, 22);
    const std::string line =
        "program " + std::to_string(pid) + " " + (start.empty() ? "0" : start) + " " + boot_ + "\n";
    attempt.record->Write(line);
    for (int fd : attempt.connections) Send(fd, line);
    if (auto ended = unclaimed_.find(attempt.pid); ended != unclaimed_.end()) {
      const int status = ended->second;
      unclaimed_.erase(ended);
      OnExit(attempt, status);
    }
  }

  void OnExit(Attempt& attempt, int status) {
    if (attempt.stage == Stage::kEnding) return;
    if (attempt.stage == Stage::kForwarded) {
      return OnNotStarted(attempt, "cold the forked process was killed before it began");
    }
    attempt.ending = EndingOf(status);
    attempt.stage = Stage::kEnding;
  }

  // It was not started, and will not be: the daemon starts it cold.
  void OnNotStarted(Attempt& attempt, const std::string& answer) {
    if (attempt.stage != Stage::kQueued && attempt.stage != Stage::kForwarded) return;
    if (attempt.record) attempt.record->Write("not_started\n");
    for (int fd : attempt.connections) Send(fd, answer);
    Forget(attempt);
  }

  // This trainable cannot be started warm at all.
  void Refuse(const std::string& why) {
    if (!refusal_.empty()) return;
    refusal_ = why.empty() ? "it ended" : why;
    End();
  }

  // Every message of the server and of its children has been read: nobody else can be starting.
  void OnServerGone() {
    Close(control_);
    if (!ready_ && refusal_.empty() && !WasServerKilled()) {
      refusal_ = "the warm-start server ended while it loaded the trainable";
    }
    End();
    for (unsigned long long id : Ids(Stage::kForwarded)) {
      OnNotStarted(attempts_.at(id), "cold the warm-start server was killed");
    }
  }

  // By SIGKILL, which says nothing of the trainable. Its socket is closed, so it is about to be
  // dead.
  bool WasServerKilled() {
    for (int looks = 0; server_ > 0 && looks < kEndLooks; ++looks) {
      if (looks > 0) ::usleep(1'000);
      if (::waitpid(server_, &server_status_, WNOHANG) == server_) server_ = -1;
    }
    return WIFSIGNALED(server_status_) && WTERMSIG(server_status_) == SIGKILL;
  }

  // Nothing new is started; what runs goes on.
  void End() {
    if (server_ > 0) ::kill(server_, SIGKILL);
    if (closing_) return;
    closing_ = true;
    for (unsigned long long id : Ids(Stage::kQueued)) OnNotStarted(attempts_.at(id), Refusal());
    ::close(kKeeper);  // A daemon that lives sees it; the next one may still come to watch.
  }
  std::string Refusal() const {
    return refusal_.empty() ? "cold the warm-start server has ended" : "refused " + refusal_;
  }

  void Reap() {
    signalfd_siginfo info[8];
    while (::read(signals_, info, sizeof info) > 0) {
    }
    int status = 0;
    std::map<pid_t, int> others;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == server_) {
        server_ = -1;
        server_status_ = status;
      }
      auto own = std::find_if(attempts_.begin(), attempts_.end(),
                              [pid](const auto& one) { return one.second.pid == pid; });
      if (own != attempts_.end()) {
        OnExit(own->second, status);
      } else {
        others[pid] = status;
      }
    }
    // Programs are the server's children while it lives. Those that it leaves may be unknown yet.
    if (server_ < 0 && control_ >= 0) unclaimed_.merge(others);
  }

  void Accept() {
    int fd = -1;
    while ((fd = ::accept4(kListener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
      fresh_.push_back(fd);
    }
  }

  // The first message of each connection.
  void ReadFresh() {
    for (auto at = fresh_.begin(); at != fresh_.end();) {
      Received received = Receive(*at);
      if (!received.any && !received.end) {
        ++at;
        continue;
      }
      const int connection = *at;
      at = fresh_.erase(at);
      const std::vector<std::string> fields = FieldsOf(received.text);
      if (fields.size() == 6 && fields[0] == "launch" && received.fd >= 0) {
        Launch(connection, received.fd, fields);
      } else {
        if (received.fd >= 0) ::close(received.fd);
        if (fields.size() != 2 || fields[0] != "watch" || !Watch(connection, fields[1])) {
          ::close(connection);
        }
      }
    }
  }

  void Launch(int connection, int spec, const std::vector<std::string>& fields) {
    Attempt& attempt = attempts_[next_id_];
    attempt.id = next_id_++;
    attempt.connections = {connection};
    attempt.spec = spec;
    attempt.directory = fields[1];
    attempt.token = fields[2];
    attempt.cgroup = fields[5];
    if (closing_) return OnNotStarted(attempt, Refusal());
    const auto bytes_max = std::strtoull(fields[3].c_str(), nullptr, 10);
    const size_t kept = std::strtoull(fields[4].c_str(), nullptr, 10);
    attempt.out_log = std::make_unique<SegmentedLog>(fields[1], "stdout", bytes_max, kept);
    attempt.err_log = std::make_unique<SegmentedLog>(fields[1], "stderr", bytes_max, kept);
    if (ready_) Forward(attempt);
  }

  void Forward(Attempt& attempt) {
    attempt.record = std::make_unique<ShimRecord>(attempt.directory);
    attempt.record->Write("shim " + identity_ + "group " + socket_path_ + "\n");
    const bool sent = attempt.out.Open() && attempt.err.Open() &&
                      Send(control_, std::to_string(attempt.id),
                           {attempt.spec, attempt.out.write, attempt.err.write});
    const int error = errno;
    for (int* fd : {&attempt.out.write, &attempt.err.write, &attempt.spec}) Close(*fd);
    for (int fd : {attempt.out.read, attempt.err.read}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    attempt.stage = Stage::kForwarded;
    if (!sent) OnNotStarted(attempt, std::string("cold ") + std::strerror(error));
  }

  bool Watch(int connection, const std::string& directory) {
    for (auto& [id, attempt] : attempts_) {
      if (attempt.directory != directory) continue;
      attempt.connections.push_back(connection);
      return true;
    }
    return false;  // It has ended, and its file says how.
  }

  // Its connections, its output, its end. May forget it.
  void Visit(Attempt& attempt) {
    for (auto at = attempt.connections.begin(); at != attempt.connections.end();) {
      Received received = Receive(*at);
      if (received.fd >= 0) ::close(received.fd);
      if (received.any && received.text.starts_with("cancel") && Cancel(attempt)) return;
      if (received.end) ::close(*at);
      at = received.end ? attempt.connections.erase(at) : at + 1;
    }
    if (attempt.connections.empty() && attempt.stage == Stage::kQueued) return Forget(attempt);
    CopyOutput(attempt);
    if (attempt.stage != Stage::kEnding || !Sweep(attempt)) return;
    CopyOutput(attempt);
    attempt.record->WriteEnd(attempt.ending);
    Forget(attempt);
  }

  // True when the attempt is forgotten.
  bool Cancel(Attempt& attempt) {
    if (attempt.stage == Stage::kForwarded) End();  // Stuck: what it says next settles it.
    if (attempt.stage != Stage::kQueued) return false;
    OnNotStarted(attempt, "cold the trainable is still being loaded");
    return true;
  }

  void CopyOutput(Attempt& attempt) {
    if (attempt.out.read >= 0 && !Copy(attempt.out.read, *attempt.out_log)) Close(attempt.out.read);
    if (attempt.err.read >= 0 && !Copy(attempt.err.read, *attempt.err_log)) Close(attempt.err.read);
  }

  // Kills what the attempt left behind; true once nothing of it is there. A descendant is known by
  // its session or its token, and becomes our child when its parents are dead. What denies both is
  // killed when no other attempt lives.
  bool Sweep(const Attempt& attempt) {
    bool clean = true;
    if (!attempt.cgroup.empty()) Put(attempt.cgroup + "/cgroup.kill", "1");
    const std::string session = std::to_string(attempt.pid);
    const std::string mark = "RT_TOKEN=" + attempt.token;
    for (pid_t child : Children()) {
      if (child == server_ || IsProgram(child)) continue;
      std::string environment;
      const bool own = attempts_.size() == 1 || StatField(child, 6) == session ||
                       (ReadWhole("/proc/" + std::to_string(child) + "/environ", environment) &&
                        environment.find(mark) != std::string::npos);
      if (!own) continue;
      ::kill(child, SIGKILL);
      clean = false;
    }
    return clean;
  }
  bool IsProgram(pid_t pid) const {
    for (const auto& [id, attempt] : attempts_) {
      if (attempt.pid == pid && attempt.stage == Stage::kRunning) return true;
    }
    return false;
  }

  void KillStrays() {
    for (pid_t child : Children()) ::kill(child, SIGKILL);
  }

  void Forget(Attempt& attempt) {
    for (int fd : attempt.connections) ::close(fd);
    for (int* fd : {&attempt.spec, &attempt.out.read, &attempt.out.write, &attempt.err.read,
                    &attempt.err.write}) {
      Close(*fd);
    }
    attempts_.erase(attempt.id);
  }

  std::vector<unsigned long long> Ids() const {
    std::vector<unsigned long long> ids;
    for (const auto& [id, attempt] : attempts_) ids.push_back(id);
    return ids;
  }
  std::vector<unsigned long long> Ids(Stage stage) const {
    std::vector<unsigned long long> ids = Ids();
    std::erase_if(ids, [&](unsigned long long id) { return attempts_.at(id).stage != stage; });
    return ids;
  }

  static void Close(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }

  const Spec& spec_;
  const std::string socket_path_;
  const int signals_;
  std::string identity_;
  std::string boot_;
  pid_t server_ = -1;
  int server_status_ = 0;  // How it ended.
  int control_ = -1;
  int lock_ = kLaunchLock;
  int server_out_ = -1;
  int server_err_ = -1;
  Preamble out_preamble_;
  Preamble err_preamble_;
  bool ready_ = false;
  bool closing_ = false;
  std::string refusal_;
  unsigned long long next_id_ = 1;
  std::vector<int> fresh_;  // Connections that have not said anything.
  std::map<unsigned long long, Attempt> attempts_;
  std::map<pid_t, int> unclaimed_;  // Wait statuses of children whose attempt is not known yet.
};

}  // namespace

int RunGroup(const Spec& spec, const std::string& socket_path, int signals) {
  return Group(spec, socket_path, signals).Run();
}

}  // namespace rt::worker
