#include "worker/session/trial_socket.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/unix_address.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

constexpr int kVisitMs = 100;
constexpr size_t kSparesMax = 64;
constexpr size_t kReadBytes = 64u << 10;
constexpr size_t kLineBytesMax = limits::kMessageBytesMax;
constexpr int kBacklog = 64;

absl::Status TooLong(size_t most) {
  return Invalid("the line is too long; at most " + std::to_string(most) + " bytes are taken here");
}

}  // namespace

TrialSocket::TrialSocket(HeadCalls& head, BlobStore& store, CheckpointPushes& pushes, IoPool& pool)
    : head_(head), store_(store), pushes_(pushes), pool_(pool) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

TrialSocket::~TrialSocket() {
  Stop();
  for (auto& [id, connection] : connections_) ::close(connection.fd);
  for (auto& [id, listener] : listeners_) ::close(listener.fd);
  ::close(epoll_);
  ::close(wake_);
}

void TrialSocket::Start() {
  thread_ = std::thread([this] { Run(); });
}

void TrialSocket::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
  for (const Spare& spare : spares_) {
    ::close(spare.fd);
    ::unlink(spare.path.c_str());
  }
  spares_.clear();
}

void TrialSocket::Wake() {
  uint64_t one = 1;
  ssize_t ignored = ::write(wake_, &one, sizeof one);
  (void)ignored;
}

void TrialSocket::Post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  Wake();
}

absl::Status TrialSocket::Listen(std::shared_ptr<LiveAttempt> attempt, const std::string& path) {
  RT_ASSIGN_OR_RETURN(int fd, OpenListener(path));
  Post([this, fd, path, attempt = std::move(attempt)] {
    uint64_t id = next_id_++;
    listeners_[id] = {fd, path, attempt};
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  });
  return absl::OkStatus();
}

absl::StatusOr<int> TrialSocket::OpenListener(const std::string& path) {
  RT_ASSIGN_OR_RETURN(sockaddr_un address, UnixAddress(path));
  {
    std::lock_guard lock(mutex_);
    while (!spares_.empty()) {
      const Spare spare = std::move(spares_.back());
      spares_.pop_back();
      if (::rename(spare.path.c_str(), path.c_str()) == 0) return spare.fd;
      ::close(spare.fd);
    }
  }
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  ::unlink(path.c_str());
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, kBacklog) != 0) {
    absl::Status failed = ErrnoStatus(errno, "listen on " + path);
    ::close(fd);
    return failed;
  }
  return fd;
}

// Under its new name nobody finds it. Who found it under the old one is turned away.
void TrialSocket::Recycle(const Listener& listener) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener.fd, nullptr);
  std::lock_guard lock(mutex_);
  const std::string folder = listener.path.substr(0, listener.path.rfind('/'));
  const std::string path = folder + "/spare-" + std::to_string(next_spare_++);
  const bool kept = !stopping_ && spares_.size() < kSparesMax &&
                    ::rename(listener.path.c_str(), path.c_str()) == 0;
  if (!kept) {
    ::close(listener.fd);
    return;
  }
  for (int late = 0; (late = ::accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    ::close(late);
  }
  spares_.push_back({listener.fd, path});
}

void TrialSocket::Finish(const Fence& fence) {
  Post([this, fence] {
    barriers_.NoteEnd(fence, SteadyClock());
    CloseListener(fence);
    std::vector<uint64_t> mine;
    for (auto& [id, connection] : connections_) {
      if (connection.attempt->fence() != fence) continue;
      connection.finishing = true;
      mine.push_back(id);
    }
    for (uint64_t id : mine) Process(id);
  });
}

void TrialSocket::Close(const Fence& fence) {
  Post([this, fence] {
    CloseListener(fence);
    std::vector<uint64_t> mine;
    for (auto& [id, connection] : connections_) {
      if (connection.attempt->fence() == fence) mine.push_back(id);
    }
    for (uint64_t id : mine) Drop(id);
  });
}

void TrialSocket::CloseListener(const Fence& fence) {
  for (auto at = listeners_.begin(); at != listeners_.end(); ++at) {
    if (at->second.attempt->fence() != fence) continue;
    const size_t turns = kBacklog / limits::kTrialAcceptsPerTurn + 1;
    for (size_t turn = 0; turn < turns && Accept(at->first);) ++turn;
    Recycle(at->second);
    at->second.attempt->NoteListenerClosed();
    listeners_.erase(at);
    return;
  }
}

void TrialSocket::Run() {
  epoll_event events[64];
  for (;;) {
    const int wait_ms = std::exchange(has_more_, false) ? 0 : kVisitMs;
    int count = ::epoll_wait(epoll_, events, 64, wait_ms);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == 0) {
        uint64_t drained = 0;
        ssize_t ignored = ::read(wake_, &drained, sizeof drained);
        (void)ignored;
      } else if (listeners_.contains(id)) {
        Accept(id);
      } else if (auto found = connections_.find(id); found != connections_.end()) {
        Read(found->second);
        Process(id);
      }
    }
    RunTasks();
    Visit();
    std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
}

void TrialSocket::RunTasks() {
  std::deque<std::function<void()>> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

bool TrialSocket::HasSpaceFor(const LiveAttempt& attempt) const {
  size_t all = 0, ungreeted = 0;
  for (const auto& [id, connection] : connections_) {
    if (connection.attempt.get() != &attempt) continue;
    ++all;
    if (!connection.greeted) ++ungreeted;
  }
  return all < limits::kTrialConnectionsMax && ungreeted < limits::kTrialUngreetedMax;
}

// Said once, until there are descriptors again.
void TrialSocket::NoteFull(int error) {
  if (std::exchange(is_full_, true)) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string why =
      error == EMFILE ? "trials cannot connect: all " + std::to_string(limit.rlim_cur) +
                            " files that rt-worker may open are open; raise its limit (ulimit -n)"
                      : "trials cannot connect: this machine has too many files open; raise "
                        "fs.file-max";
  RT_LOG(kError) << why;
  on_full_(why);
}

void TrialSocket::LookForDescriptors() {
  if (!is_full_) return;
  const int free = ::fcntl(wake_, F_DUPFD_CLOEXEC, 0);
  if (free < 0) return;
  ::close(free);
  is_full_ = false;
  RT_LOG(kInfo) << "trials can connect again";
  on_full_("");
}

// What a new connection has said is read at once: its hello counts before the next one comes.
bool TrialSocket::Accept(uint64_t listener) {
  const Listener& from = listeners_.at(listener);
  for (size_t accepted = 0; accepted < limits::kTrialAcceptsPerTurn; ++accepted) {
    const int fd = ::accept4(from.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      const int error = errno;
      if (error == EMFILE || error == ENFILE) NoteFull(error);
      return false;
    }
    if (!HasSpaceFor(*from.attempt)) {
      ::close(fd);
      if (const uint64_t count = refused_connections_.Note(SteadyClock()); count > 0) {
        RT_LOG(kWarning) << rt::ToString(from.attempt->fence())
                         << ": connections to its socket: " << count << " closed; at most "
                         << limits::kTrialConnectionsMax << " are taken, and "
                         << limits::kTrialUngreetedMax << " without a hello";
      }
      continue;
    }
    uint64_t id = next_id_++;
    Connection& connection = connections_[id];
    connection.id = id;
    connection.fd = fd;
    connection.attempt = from.attempt;
    from.attempt->NoteConnected();
    Read(connection);
    Process(id);
  }
  return true;
}

size_t TrialSocket::LineBytesMax(const Connection& connection) {
  return connection.greeted ? kLineBytesMax : limits::kTrialHelloBytesMax;
}

// Until it has a complete line, so that the lines of one turn are few.
void TrialSocket::Read(Connection& connection) {
  char buffer[kReadBytes];
  if (HasLine(connection)) return;
  while (!connection.at_end && connection.in.size() <= LineBytesMax(connection)) {
    ssize_t count = ::recv(connection.fd, buffer, sizeof buffer, 0);
    if (count > 0) {
      connection.in.append(buffer, static_cast<size_t>(count));
      if (std::memchr(buffer, '\n', static_cast<size_t>(count)) != nullptr) return;
    } else if (count == 0) {
      connection.at_end = true;
    } else if (errno != EINTR) {
      const bool nothing_yet = errno == EAGAIN || errno == EWOULDBLOCK;
      connection.at_end = !nothing_yet || connection.finishing;
      return;
    }
  }
}

// While it is finishing nobody reads its answers.
bool TrialSocket::IsBlocked(const Connection& connection) const {
  const bool is_unread = !connection.finishing && connection.out.size() > limits::kTrialUnreadMax;
  return connection.busy || is_unread || connection.attempt->spool().IsFull();
}

bool TrialSocket::HandleLines(Connection& connection) {
  const std::string_view in = connection.in;
  size_t at = 0;
  for (size_t lines = 0; lines < limits::kTrialLinesPerTurn && !IsBlocked(connection); ++lines) {
    const size_t end = in.find('\n', at);
    if (end == std::string_view::npos) break;
    const std::string_view line = in.substr(at, end - at);
    at = end + 1;
    if (!connection.skipping && line.size() > LineBytesMax(connection)) {
      Refuse(connection, TooLong(LineBytesMax(connection)), 0);
    } else if (!connection.skipping) {
      HandleLine(connection, line);
    }
    connection.skipping = false;
    if (!connection.greeted && ++connection.lines_before_hello >= limits::kTrialHelloLinesMax)
      return false;
  }
  connection.in.erase(0, at);
  const size_t most = LineBytesMax(connection);
  if (IsBlocked(connection) || connection.in.size() <= most || HasLine(connection)) return true;
  if (!connection.skipping) Refuse(connection, TooLong(most), 0);
  connection.skipping = true;
  connection.in.clear();
  return true;
}

void TrialSocket::Process(uint64_t id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  const bool may_stay = HandleLines(connection);
  AnswerAcks(connection);
  AnswerWaits(connection);
  Flush(connection);
  if (!may_stay) return Drop(id);
  const bool is_blocked = IsBlocked(connection);
  if (connection.finishing && !is_blocked) Read(connection);
  const bool has_line = HasLine(connection);
  if (connection.at_end && !is_blocked && !has_line) return Drop(id);
  const bool has_more = !is_blocked && (has_line || connection.finishing);
  has_more_ = has_more_ || has_more;
  Poll(connection, !is_blocked && !has_more);  // Visit continues with it otherwise.
}

void TrialSocket::Visit() {
  LookForDescriptors();
  barriers_.Tick(SteadyClock());
  std::vector<uint64_t> resumed;
  for (auto& [id, connection] : connections_) {
    TakeIfSpace(connection);
    AnswerWaits(connection);
    AnswerBarrier(connection);
    Flush(connection);
    AskAgain(connection);
    if (!connection.polled && !IsBlocked(connection)) resumed.push_back(id);
  }
  for (uint64_t id : resumed) Process(id);
}

void TrialSocket::Poll(Connection& connection, bool wanted) {
  if (wanted == connection.polled) return;
  connection.polled = wanted;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = connection.id}};
  ::epoll_ctl(epoll_, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, connection.fd, &event);
}

void TrialSocket::Flush(Connection& connection) {
  while (!connection.out.empty()) {
    ssize_t count = ::send(connection.fd, connection.out.data(), connection.out.size(),
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (connection.finishing) connection.out.clear();
      return;  // Visit tries again.
    }
    if (count < 0) return connection.out.clear();  // It will read as ended.
    connection.out.erase(0, static_cast<size_t>(count));
  }
}

void TrialSocket::Drop(uint64_t id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Poll(found->second, false);
  ::close(found->second.fd);
  for (size_t i = 0; i < found->second.to_repeat.size(); ++i)
    found->second.attempt->EndDriverCall();
  found->second.attempt->NoteDisconnected();
  connections_.erase(found);
}

void TrialSocket::AnswerAcks(Connection& connection) {
  if (connection.ack == 0) return;
  Send(connection, Json::MakeObject({{"op", "ack"}, {"seq", connection.ack}}));
  connection.ack = 0;
}

void TrialSocket::AnswerBarrier(Connection& connection) {
  if (connection.barrier == 0) return;
  const BarrierState state =
      barriers_.StateOf(connection.attempt->fence().attempt, connection.barrier, SteadyClock());
  const bool is_passed = state.passed >= connection.barrier;
  if (!is_passed && state.ended.empty()) return;
  Send(connection, BarrierMessage(is_passed ? "passed" : "missing", connection.barrier, state));
  connection.barrier = 0;
}

void TrialSocket::SendEvict(Connection& connection, const Standing& standing) {
  if (standing.evict && connection.evict_sent != standing.evict_by) {
    connection.evict_sent = standing.evict_by;
    Json message = Json::MakeObject({{"op", "checkpoint_now"}});
    const Millis left = std::max<Millis>(0, standing.evict_by - WallClock());
    message.Set("deadline_s", standing.evict_by == 0 ? Json() : Json(ToSeconds(left)));
    Send(connection, message);
  } else if (!standing.evict && connection.evict_sent) {
    connection.evict_sent.reset();
    Send(connection, Json::MakeObject({{"op", "stay"}}));
  }
}

// Before it is frozen, and when it continues.
void TrialSocket::SendFreeze(Connection& connection, const Standing& standing) {
  if (standing.save && !connection.save_sent)
    Send(connection,
         Json::MakeObject({{"op", "save"}, {"deadline_s", ToSeconds(limits::kSuspendGrace)}}));
  connection.save_sent = standing.save;
  if (connection.thaws_sent == standing.thaws) return;
  connection.thaws_sent = standing.thaws;
  Send(connection,
       Json::MakeObject({{"op", "thawed"}, {"frozen_for_s", ToSeconds(standing.frozen_for)}}));
  connection.attempt->NoteThawTold(standing.thaws);
}

void TrialSocket::AnswerWaits(Connection& connection) {
  const Standing standing = connection.attempt->standing();
  const bool stop = standing.stop || standing.stale;
  if (standing.suspend && connection.greeted && !connection.suspend_sent) {
    connection.suspend_sent = true;
    Send(connection,
         Json::MakeObject({{"op", "pause"}, {"deadline_s", ToSeconds(limits::kSuspendGrace)}}));
  }
  if (connection.greeted) SendEvict(connection, standing);
  if (connection.greeted) SendFreeze(connection, standing);
  std::erase_if(connection.waits, [&](const Wait& wait) {
    if (!connection.attempt->IsSettled(standing, wait.spool_seq)) return false;
    Send(connection, Json::MakeObject({{"op", "verdict"},
                                       {"seq", wait.reply_seq},
                                       {"verdict", stop ? "stop" : "continue"},
                                       {"reason", standing.reason}}));
    return true;
  });
  if (stop && connection.greeted && !connection.stop_sent) {
    connection.stop_sent = true;
    Send(connection, Json::MakeObject({{"op", "stop"}, {"reason", standing.reason}}));
  }
}

}  // namespace rt::worker
