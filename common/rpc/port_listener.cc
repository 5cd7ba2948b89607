#include "common/rpc/port_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/freed_memory.h"
#include "common/rpc/fruitless.h"
#include "common/rpc/pending_connections.h"
#include "common/rpc/tcp_socket.h"
#include "common/run/clock.h"

namespace rt {
namespace {

constexpr Millis kLookEvery = 250;
constexpr Millis kLookAtPendingEvery = 20;
constexpr int kEventsMax = 256;
constexpr int kAcceptsPerRound = 64;
// While others wait for its place: a client in its handshake may be silent for so long and four
// round trips, one that was not answered yet a little longer, and none may take more than a second.
constexpr Millis kStallMin = 200;
constexpr Millis kUnansweredMax = 500;
constexpr Millis kCrowdedMax = 1'000;
// The first request of a connection may take longer than the handshake, but not for ever.
constexpr Millis kFirstRequestMax = 60'000;
// The peer has closed its half; the server has this long to close its own.
constexpr Millis kHalfClosedMax = 10'000;
constexpr Millis kWarnEvery = 1'000;
constexpr uint64_t kWake = 0;  // Numbers of connections begin above those of the listeners.
constexpr uint64_t kFirstConnection = 1'000;

size_t OpenFilesMax() {
  rlimit limit{};
  constexpr size_t kEnough = 1 << 17;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1'024;
  return std::min<size_t>(kEnough, limit.rlim_cur);
}

// Two descriptors for each connection, ours and the server's.
PortListenerOptions Complete(PortListenerOptions options) {
  const size_t files = OpenFilesMax();
  const size_t kept = std::min(limits::kFilesReserved, files / 2);
  const size_t capacity = std::max<size_t>(16, (files - kept) / 2);
  if (options.connections_max == 0) options.connections_max = capacity;
  options.pending_max = std::min(options.pending_max, options.connections_max * 3 / 4);
  options.handshakes_max = std::min(options.handshakes_max, options.connections_max / 2);
  return options;
}

bool IsStalled(const TcpFacts& facts) {
  const bool was_answered = facts.sent_ago <= facts.silent_for;
  const Millis most = was_answered ? kStallMin + 4 * facts.round_trip : kUnansweredMax;
  return facts.unread == 0 && facts.silent_for > most;
}

}  // namespace

class PortListener::Impl {
 public:
  explicit Impl(PortListenerOptions options)
      : options_(Complete(std::move(options))), pending_(options_.pending_max) {}
  ~Impl() {
    Stop();
    for (int fd : {epoll_, wake_, spare_})
      if (fd >= 0) ::close(fd);
  }
  absl::Status Bind();
  void Start(Take take) {
    take_ = std::move(take);
    thread_ = std::thread([this] { Run(); });
  }
  void Stop();
  int port() const { return bound_.port; }
  size_t connections_max() const { return options_.connections_max; }
  PortCounters counters() const {
    return {open_, pending_now_, accepted_, refused_, timed_out_, cut_off_};
  }
  std::string fault() const;
  std::shared_ptr<PeerConnection> Find(const std::string& peer) const {
    std::lock_guard lock(mutex_);
    auto found = by_peer_.find(peer);
    return found == by_peer_.end() ? nullptr : found->second;
  }
  void CutOff(PeerConnection& connection, const std::string& why);
  void NoteFlood() { freed_.NoteAttack(SteadyClock()); }
  void OnFruitless(std::function<void(PeerConnection&)> act) { on_fruitless_ = std::move(act); }
  void CountBodies(std::function<size_t(PeerConnection&)> count) { bodies_ = std::move(count); }

 private:
  using Number = PendingConnections::Number;
  struct Waiting {  // Not handed over yet.
    int fd;
    std::string peer;
    Millis since;
  };
  struct Handed {
    std::shared_ptr<PeerConnection> connection;
    Millis since;  // It was accepted.
    Millis handed_at;
    Millis half_closed_at = 0;
    FruitlessBytes fruitless;
  };

  void Run();
  void AcceptAll(int listener);
  void RefuseOne(int listener);
  void Accept(int fd, const sockaddr_storage& peer);
  void OnEvent(Number number, uint32_t events);
  void OnWaiting(Number number, const Waiting& waiting, uint32_t events);
  void HandOver(Number number);
  void DropWaiting(Number number, std::atomic<uint64_t>& counter);
  void Forget(Number number);
  void Look(Millis now);
  void LookAtPending(Millis now);
  void LookAtHandshake(Number number, Handed& handed, Millis now);
  bool IsFruitless(Handed& handed, const TcpFacts& facts, Millis now);
  void Count() {
    open_ = waiting_.size() + handed_.size();
    pending_now_ = pending_.size();
  }
  void Watch(int fd, Number number, uint32_t events, int operation = EPOLL_CTL_ADD) {
    epoll_event event{.events = events, .data = {.u64 = number}};
    RT_CHECK(::epoll_ctl(epoll_, operation, fd, &event) == 0);
  }

  const PortListenerOptions options_;
  Take take_;
  std::function<void(PeerConnection&)> on_fruitless_;
  std::function<size_t(PeerConnection&)> bodies_ = [](PeerConnection&) { return 0; };
  BoundPort bound_;
  int epoll_ = -1, wake_ = -1, spare_ = -1;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;

  // Used by the thread alone.
  Number next_number_ = kFirstConnection;
  std::map<Number, Waiting> waiting_;
  std::map<Number, Handed> handed_;
  PendingConnections pending_;  // All that wait, and of the others those that are not admitted.

  FreedMemory freed_;
  std::atomic<uint64_t> open_ = 0, pending_now_ = 0, accepted_ = 0, refused_ = 0, timed_out_ = 0,
                        cut_off_ = 0;
  std::atomic<Millis> warned_at_ = 0;
  std::atomic<Millis> shortage_at_ = 0;  // When a descriptor was last missing; 0: never.
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<PeerConnection>> by_peer_;
};

std::string PortListener::Impl::fault() const {
  const Millis at = shortage_at_;
  if (at == 0 || SteadyClock() - at > options_.shortage_said) return "";
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return "connections were closed, because no file descriptor was left: this process may have " +
         std::to_string(limit.rlim_cur) +
         " open files; raise the limit (LimitNOFILE= of its systemd unit, or ulimit -Hn)";
}

void PortListener::Impl::CutOff(PeerConnection& connection, const std::string& why) {
  ++cut_off_;
  const Millis now = SteadyClock();
  freed_.NoteAttack(now);
  Millis warned_at = warned_at_;
  const bool is_due = warned_at == 0 || now - warned_at >= kWarnEvery;
  if (!why.empty() && is_due && warned_at_.compare_exchange_strong(warned_at, now)) {
    RT_LOG(kWarning) << "cut off a connection from " << connection.peer << ": " << why << " ("
                     << cut_off_ << " since the start)";
  }
  connection.ShutDown();
}

absl::Status PortListener::Impl::Bind() {
  on_fruitless_ = [this](PeerConnection& connection) { CutOff(connection, kSendsNothing); };
  RT_ASSIGN_OR_RETURN(bound_, BindPort(options_.address));
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (epoll_ < 0 || wake_ < 0 || spare_ < 0) return ErrnoStatus(errno, "listen");
  Watch(wake_, kWake, EPOLLIN);
  for (size_t i = 0; i < bound_.fds.size(); ++i) Watch(bound_.fds[i], i + 1, EPOLLIN);
  return absl::OkStatus();
}

void PortListener::Impl::Stop() {
  if (!stopping_.exchange(true) && thread_.joinable()) {
    const uint64_t one = 1;
    RT_CHECK(::write(wake_, &one, sizeof one) == sizeof one);
    thread_.join();
  }
  for (int fd : bound_.fds) ::close(fd);
  bound_.fds.clear();
  for (const auto& [number, waiting] : waiting_) ::close(waiting.fd);
  waiting_.clear();
}

void PortListener::Impl::Run() {
  Millis looked_at = 0;
  while (!stopping_) {
    const bool is_idle = handed_.empty() && freed_.is_quiet();
    const Millis wait = pending_.size() > 0 ? kLookAtPendingEvery
                        : is_idle           ? FreedMemory::kLookAtGrowthEvery
                                            : kLookEvery;
    epoll_event events[kEventsMax];
    const int count = ::epoll_wait(epoll_, events, kEventsMax, static_cast<int>(wait));
    if (stopping_) return;
    for (int i = 0; i < count; ++i) {
      const Number number = events[i].data.u64;
      if (number == kWake) continue;
      if (number <= bound_.fds.size()) AcceptAll(bound_.fds[number - 1]);
      else OnEvent(number, events[i].events);
    }
    const Millis now = SteadyClock();
    LookAtPending(now);
    if (now - looked_at >= kLookEvery) {
      looked_at = now;
      Look(now);
      freed_.Look(now);
    }
    while (pending_.has_ready() && pending_.handshakes().size() < options_.handshakes_max)
      HandOver(*pending_.NextHandshake());
    Count();
  }
}

void PortListener::Impl::AcceptAll(int listener) {
  if (options_.before_accept) options_.before_accept();
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    auto* address = reinterpret_cast<sockaddr*>(&peer);
    const int fd = ::accept4(listener, address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      ++accepted_;
      Accept(fd, peer);
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno != EMFILE && errno != ENFILE) return;
    shortage_at_ = SteadyClock();
    const std::optional<Number> oldest = pending_.Oldest();
    if (!oldest) return RefuseOne(listener);
    DropWaiting(*oldest, refused_);
  }
}

// The process has no descriptor left: the one that was kept for this is used to tell the peer.
void PortListener::Impl::RefuseOne(int listener) {
  ::close(spare_);
  const int refused = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (refused >= 0) ::close(refused);
  ++refused_;
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void PortListener::Impl::Accept(int fd, const sockaddr_storage& peer) {
  const std::string address = AddressKey(peer);
  const bool is_full = waiting_.size() + handed_.size() >= options_.connections_max;
  const PendingConnections::Slot slot = pending_.SlotFor(address, is_full);
  if (slot.drop) DropWaiting(*slot.drop, refused_);
  if (!slot.fits) {
    ++refused_;
    ::close(fd);
    return;
  }
  PrepareAccepted(fd, options_.user_timeout);
  BoundBuffer(fd, limits::kPendingBufferBytes);
  const Number number = next_number_++;
  waiting_[number] = {fd, PeerName(peer), SteadyClock()};
  pending_.Add(number, address);
  Watch(fd, number, EPOLLIN | EPOLLRDHUP);
}

void PortListener::Impl::OnEvent(Number number, uint32_t events) {
  if (auto waiting = waiting_.find(number); waiting != waiting_.end())
    return OnWaiting(number, waiting->second, events);
  auto handed = handed_.find(number);
  if (handed == handed_.end()) return;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) Forget(number);
  else if (handed->second.half_closed_at == 0) handed->second.half_closed_at = SteadyClock();
}

void PortListener::Impl::OnWaiting(Number number, const Waiting& waiting, uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) return DropWaiting(number, timed_out_);
  switch (LookForHello(waiting.fd)) {
    case Hello::kIncomplete:
      return;
    case Hello::kClosed:
    case Hello::kNoTls:
      return DropWaiting(number, refused_);
    case Hello::kComplete:
      pending_.SetReady(number);
      return Watch(waiting.fd, number, EPOLLRDHUP, EPOLL_CTL_MOD);
  }
}

void PortListener::Impl::HandOver(Number number) {
  const Waiting waiting = waiting_.at(number);
  const int ours = ::fcntl(waiting.fd, F_DUPFD_CLOEXEC, 3);
  if (ours < 0) return DropWaiting(number, refused_);
  waiting_.erase(number);
  pending_.BeginHandshake(number);
  // A registration belongs to the open socket: it would outlive the server's close.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, waiting.fd, nullptr);
  ForgetLowWater(waiting.fd);
  auto connection = std::make_shared<PeerConnection>(waiting.peer, ours);
  {
    std::lock_guard lock(mutex_);
    by_peer_[waiting.peer] = connection;
  }
  handed_[number] = {.connection = std::move(connection), .since = waiting.since,
                     .handed_at = SteadyClock(), .fruitless = {}};
  Watch(ours, number, EPOLLRDHUP | EPOLLET);
  take_(waiting.fd);
}

void PortListener::Impl::DropWaiting(Number number, std::atomic<uint64_t>& counter) {
  const auto waiting = waiting_.find(number);
  ++counter;  // Before the close: a peer that sees its end is counted.
  ::close(waiting->second.fd);
  waiting_.erase(waiting);
  pending_.Remove(number);
}

void PortListener::Impl::Forget(Number number) {
  const auto handed = handed_.find(number);
  PeerConnection& connection = *handed->second.connection;
  pending_.Remove(number);
  {
    std::lock_guard lock(mutex_);
    auto found = by_peer_.find(connection.peer);
    if (found != by_peer_.end() && found->second.get() == &connection) by_peer_.erase(found);
  }
  connection.Close();
  handed_.erase(handed);
}

void PortListener::Impl::LookAtPending(Millis now) {
  while (!waiting_.empty() && now - waiting_.begin()->second.since > options_.handshake_timeout)
    DropWaiting(waiting_.begin()->first, timed_out_);
  const std::vector<Number> numbers(pending_.handshakes().begin(), pending_.handshakes().end());
  for (Number number : numbers) {
    Handed& handed = handed_.at(number);
    if (handed.connection->admitted) pending_.Remove(number);
    else LookAtHandshake(number, handed, now);
  }
}

void PortListener::Impl::LookAtHandshake(Number number, Handed& handed, Millis now) {
  TcpFacts facts;
  if (!ReadTcpFacts(handed.connection->fd(), facts)) return;
  const bool is_silent = IsStalled(facts);
  const Millis age = now - handed.since;
  const bool is_late =
      age > kFirstRequestMax || (is_silent && age > options_.handshake_timeout);
  const bool is_crowded =
      pending_.has_ready() && pending_.handshakes().size() >= options_.handshakes_max;
  const bool is_in_the_way = is_crowded && (is_silent || now - handed.handed_at > kCrowdedMax);
  if (is_late || is_in_the_way) {
    ++timed_out_;
    handed.connection->ShutDown();
    Forget(number);
    freed_.NoteAttack(now);
  } else if (IsFruitless(handed, facts, now)) {
    on_fruitless_(*handed.connection);
  }
}

void PortListener::Impl::Look(Millis now) {
  std::vector<Number> over;
  for (auto& [number, handed] : handed_) {
    if (handed.half_closed_at != 0) {
      pollfd look{handed.connection->fd(), 0, 0};
      const bool is_closed = ::poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
      if (is_closed || now - handed.half_closed_at > kHalfClosedMax) over.push_back(number);
    } else if (handed.connection->admitted) {
      TcpFacts facts;
      if (ReadTcpFacts(handed.connection->fd(), facts) && IsFruitless(handed, facts, now))
        on_fruitless_(*handed.connection);
    }
  }
  for (Number number : over) {
    handed_.at(number).connection->ShutDown();
    Forget(number);
  }
}

bool PortListener::Impl::IsFruitless(Handed& handed, const TcpFacts& facts, Millis now) {
  PeerConnection& connection = *handed.connection;
  return handed.fruitless.Look(now, facts, connection.progress,
                               [&] { return connection.uploads + bodies_(connection); });
}

absl::StatusOr<std::unique_ptr<PortListener>> PortListener::Listen(
    const PortListenerOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  RT_RETURN_IF_ERROR(impl->Bind());
  return std::unique_ptr<PortListener>(new PortListener(std::move(impl)));
}

PortListener::PortListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PortListener::~PortListener() = default;
void PortListener::Start(Take take) { impl_->Start(std::move(take)); }
void PortListener::Stop() { impl_->Stop(); }
int PortListener::port() const { return impl_->port(); }
size_t PortListener::connections_max() const { return impl_->connections_max(); }
PortCounters PortListener::counters() const { return impl_->counters(); }
std::string PortListener::fault() const { return impl_->fault(); }
std::shared_ptr<PeerConnection> PortListener::Find(const std::string& peer) const {
  return impl_->Find(peer);
}
void PortListener::CutOff(PeerConnection& connection, const std::string& why) {
  impl_->CutOff(connection, why);
}
void PortListener::NoteFlood() { impl_->NoteFlood(); }
void PortListener::OnFruitless(std::function<void(PeerConnection&)> act) {
  impl_->OnFruitless(std::move(act));
}
void PortListener::CountBodies(std::function<size_t(PeerConnection&)> count) {
  impl_->CountBodies(std::move(count));
}

}  // namespace rt
