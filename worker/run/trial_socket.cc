#include "worker/run/trial_socket.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/run/clock.h"

namespace rt::worker {
namespace {

constexpr int kVisitMs = 100;
constexpr size_t kSparesMax = 64;
constexpr size_t kReadBytes = 64u << 10;
constexpr size_t kLineBytesMax = limits::kMessageBytesMax;

}  // namespace

TrialSocket::TrialSocket(HeadCalls& head, BlobStore& store, CheckpointPushes& pushes,
                         IoPool& pool)
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
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Invalid("socket path is too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
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
      ::listen(fd, 64) != 0) {
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
    Accept(at->first);
    Recycle(at->second);
    at->second.attempt->NoteListenerClosed();
    listeners_.erase(at);
    return;
  }
}

void TrialSocket::Run() {
  epoll_event events[64];
  for (;;) {
    int count = ::epoll_wait(epoll_, events, 64, kVisitMs);
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

void TrialSocket::Accept(uint64_t listener) {
  const Listener& from = listeners_.at(listener);
  const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  for (int fd = 0; (fd = ::accept4(from.fd, nullptr, nullptr, flags)) >= 0;) {
    uint64_t id = next_id_++;
    Connection& connection = connections_[id];
    connection.id = id;
    connection.fd = fd;
    connection.attempt = from.attempt;
    from.attempt->NoteConnected();
    Poll(connection, true);
  }
}

void TrialSocket::Read(Connection& connection) {
  char buffer[kReadBytes];
  while (!connection.at_end && connection.in.size() <= kLineBytesMax) {
    ssize_t count = ::recv(connection.fd, buffer, sizeof buffer, 0);
    if (count > 0) {
      connection.in.append(buffer, static_cast<size_t>(count));
    } else if (count == 0) {
      connection.at_end = true;
    } else if (errno != EINTR) {
      const bool nothing_yet = errno == EAGAIN || errno == EWOULDBLOCK;
      connection.at_end = !nothing_yet || connection.finishing;
      return;
    }
  }
}

bool TrialSocket::IsBlocked(const Connection& connection) const {
  return connection.busy || connection.attempt->spool().IsFull();
}

void TrialSocket::Process(uint64_t id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  for (;;) {
    size_t at = 0;
    for (size_t end = 0;
         !IsBlocked(connection) && (end = connection.in.find('\n', at)) != std::string::npos;
         at = end + 1) {
      if (!connection.skipping) {
        HandleLine(connection, std::string_view(connection.in).substr(at, end - at));
      }
      connection.skipping = false;
    }
    connection.in.erase(0, at);
    if (IsBlocked(connection) || connection.at_end) break;
    if (connection.in.size() > kLineBytesMax) {
      if (!connection.skipping) Refuse(connection, Invalid("the line is too long"), 0);
      connection.skipping = true;
      connection.in.clear();
    }
    if (!connection.finishing) break;
    Read(connection);
  }
  AnswerAcks(connection);
  AnswerWaits(connection);
  Flush(connection);
  if (connection.at_end && !IsBlocked(connection)) return Drop(id);
  Poll(connection, !IsBlocked(connection));
}

void TrialSocket::Visit() {
  std::vector<uint64_t> resumed;
  for (auto& [id, connection] : connections_) {
    TakeIfSpace(connection);
    AnswerWaits(connection);
    Flush(connection);
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
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;  // Visit tries again.
    if (count < 0) return connection.out.clear();  // It will read as ended.
    connection.out.erase(0, static_cast<size_t>(count));
  }
}

void TrialSocket::Drop(uint64_t id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Poll(found->second, false);
  ::close(found->second.fd);
  found->second.attempt->NoteDisconnected();
  connections_.erase(found);
}

void TrialSocket::AnswerAcks(Connection& connection) {
  if (connection.ack == 0) return;
  Send(connection, Json::MakeObject({{"op", "ack"}, {"seq", connection.ack}}));
  connection.ack = 0;
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

void TrialSocket::AnswerWaits(Connection& connection) {
  const Standing standing = connection.attempt->standing();
  const bool stop = standing.stop || standing.stale;
  if (standing.suspend && connection.greeted && !connection.suspend_sent) {
    connection.suspend_sent = true;
    Send(connection, Json::MakeObject({{"op", "pause"},
                                       {"deadline_s", ToSeconds(limits::kSuspendGrace)}}));
  }
  if (connection.greeted) SendEvict(connection, standing);
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
