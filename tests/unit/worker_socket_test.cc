// What a program may do with its attempt's socket, and what it may not.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <deque>
#include <set>
#include <thread>

#include "tests/unit/push_doubles.h"
#include "worker/session/refusal_log.h"
#include "worker/session/trial_socket.h"

namespace rt::worker {
namespace {

constexpr int kPatienceMs = 120'000;

// A head that holds the calls of drivers until it is told to answer.
class HoldingHead : public SlowHead {
 public:
  void DriverCall(const Fence&, std::string,
                  std::function<void(absl::StatusOr<std::string>)> done) override {
    std::lock_guard lock(mutex_);
    held_.push_back(std::move(done));
    ++calls_;
  }
  size_t calls() {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  size_t held() {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  void AnswerOne(size_t bytes = 0) {
    std::unique_lock lock(mutex_);
    auto done = std::move(held_.front());
    held_.pop_front();
    lock.unlock();
    done(R"({"ok":true,"result":")" + std::string(bytes, 'x') + R"("})");
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void(absl::StatusOr<std::string>)>> held_;
  size_t calls_ = 0;
};

class Client {
 public:
  Client() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit Client(const std::string& path) : Client() { Connect(path); }
  void Connect(const std::string& path) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Client(const Client&) = delete;
  ~Client() { ::close(fd_); }
  void Say(const std::string& text) {
    std::string_view left = text;
    while (!left.empty()) {
      const ssize_t count = ::send(fd_, left.data(), left.size(), MSG_NOSIGNAL);
      if (count <= 0) return;  // It was closed: the next line is empty.
      left.remove_prefix(static_cast<size_t>(count));
    }
  }
  // The next line; "" at the end of the connection.
  std::string Line() {
    size_t end = 0;
    while ((end = in_.find('\n')) == std::string::npos) {
      REQUIRE(Wait(POLLIN, kPatienceMs));
      if (!Receive()) return "";
    }
    const std::string line = in_.substr(0, end);
    in_.erase(0, end + 1);
    return line;
  }
  bool Greet() {
    Say("{\"op\":\"hello\",\"token\":\"secret\"}\n");
    return Line().find("\"ok\":true") != std::string::npos;
  }
  bool IsClosed() {
    REQUIRE(Wait(POLLIN, kPatienceMs));
    return !Receive();
  }
  bool Wait(short what, int wait_ms) {
    pollfd one{.fd = fd_, .events = what, .revents = 0};
    return ::poll(&one, 1, wait_ms) == 1;
  }
  // What it takes until it takes no more, up to `most` bytes.
  size_t Flood(const std::string& text, size_t most) {
    size_t sent = 0;
    while (sent < most && Wait(POLLOUT, 1'000)) {
      const ssize_t count =
          ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 && errno != EAGAIN) break;
    }
    return sent;
  }
  bool Receive() {
    char buffer[65'536];
    const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
    if (count > 0) in_.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

 private:
  int fd_;
  std::string in_;
};

// A daemon's part, and one attempt of a job with its socket.
struct Site {
  Site() : daemon(folder, head), pool(2, 16), socket(head, daemon.store, daemon.pusher, pool) {
    LaunchBody body;
    body.fence = {{Owner::Of(JobId{1}), 1, 1}, 0};
    body.token = "secret";
    REQUIRE(EnsureDirectory(folder.path + "/job").ok());
    attempt = *LiveAttempt::Open(body, RunDir{folder.path + "/job"},
                                 {.on_row = [](bool) {}, .on_closed = [] {}});
    socket.OnFull([this](const std::string& why) {
      std::lock_guard lock(mutex);
      told.push_back(why);
      changed.notify_all();
    });
    socket.Start();
    REQUIRE(socket.Listen(attempt, path).ok());
  }
  ~Site() {
    while (head.held() > 0) head.AnswerOne();
    socket.Stop();
    pool.Stop();
  }
  void AwaitTold(size_t count) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                             [&] { return told.size() >= count; }));
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> told;  // Why no trial can connect.
  Folder folder;
  const std::string path = folder.path + "/socket";
  HoldingHead head;
  Daemon daemon;
  std::shared_ptr<LiveAttempt> attempt;
  IoPool pool;
  TrialSocket socket;
};

const std::string kCall = "{\"op\":\"driver\",\"id\":1,\"call\":{\"op\":\"experiment_wait\"}}\n";

// Left out where the build has sanitizers: UBSan looks at objects through a pipe, and takes the
// lack of descriptors for an object of another type.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RT_NEEDS_DESCRIPTORS
#endif
#endif
#ifndef RT_NEEDS_DESCRIPTORS
TEST_CASE("a daemon without free descriptors says so once, and when trials can connect again") {
  Site site;
  Client client;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int lowest = ::dup(0);
  ::close(lowest);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest);  // No other is free below it.
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  client.Connect(site.path);
  site.AwaitTold(1);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  site.AwaitTold(2);
  CHECK(client.Greet());
  CHECK(site.told[0] == "trials cannot connect: all " + std::to_string(lowest) +
                            " files that rt-worker may open are open; raise its limit (ulimit -n)");
  CHECK(site.told[1].empty());
  CHECK(site.told.size() == 2);
}
#endif

TEST_CASE("large answers that a driver does not read are not kept, and reach it once it reads") {
  constexpr size_t kCalls = 24, kAnswerBytes = 256u << 10;
  Site site;
  Client driver(site.path);
  REQUIRE(driver.Greet());
  for (size_t i = 1; i <= kCalls; ++i)
    driver.Say("{\"op\":\"driver\",\"id\":" + std::to_string(i) +
               ",\"call\":{\"op\":\"trial_rows\"}}\n");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (site.head.calls() < kCalls && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  REQUIRE(site.head.held() == kCalls);
  for (size_t i = 0; i < kCalls; ++i) site.head.AnswerOne(kAnswerBytes);
  for (int turn = 0; turn < 2; ++turn) {  // The daemon has dealt with all of them afterwards.
    Client other(site.path);
    REQUIRE(other.Greet());
  }
  std::atomic<bool> done = false;
  std::thread answers([&] {
    while (!done)
      if (site.head.held() > 0) site.head.AnswerOne(kAnswerBytes);
      else std::this_thread::yield();
  });
  std::set<int64_t> ids;
  for (size_t i = 0; i < kCalls; ++i) {
    const auto line = Json::Parse(driver.Line());
    REQUIRE(line.ok());
    CHECK(line->GetString("result").size() == kAnswerBytes);
    ids.insert(line->GetInt("id"));
  }
  done = true;
  answers.join();
  CHECK(ids.size() == kCalls);
  CHECK(site.head.calls() > kCalls + kCalls / 2);  // Most were not kept; each was made once more.
  CHECK(site.head.calls() <= 2 * kCalls);
  for (int i = 0; i < limits::kDriverCallsMax; ++i) CHECK(site.attempt->BeginDriverCall());
  CHECK_FALSE(site.attempt->BeginDriverCall());  // All of them have ended.
  for (int i = 0; i < limits::kDriverCallsMax; ++i) site.attempt->EndDriverCall();
}

TEST_CASE("a driver has at most 256 calls at once; one more is refused until one has ended") {
  Site site;
  Client driver(site.path), other(site.path);
  REQUIRE(driver.Greet());
  REQUIRE(other.Greet());
  for (int i = 0; i < limits::kDriverCallsMax; ++i) driver.Say(kCall);
  driver.Say(kCall);
  const std::string refused = driver.Line();
  CHECK(refused.find("RESOURCE_EXHAUSTED") != std::string::npos);
  CHECK(refused.find("more than 256 calls at once; wait for one to end") != std::string::npos);
  CHECK(site.head.held() == limits::kDriverCallsMax);
  other.Say(kCall);  // The bound is the attempt's, not a connection's.
  CHECK(other.Line().find("RESOURCE_EXHAUSTED") != std::string::npos);
  site.head.AnswerOne();
  CHECK(driver.Line().find("\"ok\":true") != std::string::npos);
  other.Say(kCall);
  other.Say("{\"op\":\"should_stop\"}\n");
  CHECK(other.Line().find("should_stop") != std::string::npos);  // After the call, in order.
  CHECK(site.head.held() == limits::kDriverCallsMax);
}

TEST_CASE("an attempt has at most 64 connections, of which 16 have not said hello") {
  Site site;
  std::deque<Client> silent, greeted;
  for (size_t i = 0; i < limits::kTrialUngreetedMax; ++i) silent.emplace_back(site.path);
  Client one_more(site.path);
  CHECK(one_more.IsClosed());
  for (Client& client : silent) REQUIRE(client.Greet());
  while (silent.size() + greeted.size() < limits::kTrialConnectionsMax) {
    greeted.emplace_back(site.path);
    REQUIRE(greeted.back().Greet());
  }
  Client too_many(site.path);
  CHECK(too_many.IsClosed());
  greeted.back().Say("{\"op\":\"should_stop\"}\n");
  CHECK(greeted.back().Line().find("should_stop") != std::string::npos);
}

TEST_CASE("a connection that says 16 lines without a hello is closed") {
  Site site;
  Client client(site.path);
  client.Say("x\n");
  CHECK(client.Line().find("error") != std::string::npos);
  for (int i = 0; i < 40; ++i) client.Say("x\n");
  size_t lines = 1;
  while (!client.Line().empty()) ++lines;
  CHECK(lines == limits::kTrialHelloLinesMax);
}

TEST_CASE("a line before hello has at most 4 KiB, and one after it 4 MiB") {
  Site site;
  Client client(site.path);
  client.Say(std::string(5'000, 'x') + "\n");
  CHECK(client.Line().find("at most 4096 bytes") != std::string::npos);
  client.Say(std::string(200'000, 'x') + "\n");
  CHECK(client.Line().find("at most 4096 bytes") != std::string::npos);
  REQUIRE(client.Greet());
  client.Say("{\"op\":\"" + std::string(100'000, 'x') + "\"}\n");
  CHECK(client.Line().find("unknown op") != std::string::npos);
}

TEST_CASE("a connection that does not read its answers is not read") {
  Site site;
  Client client(site.path), other(site.path);
  REQUIRE(client.Greet());
  std::string lines;
  for (int i = 0; i < 32'768; ++i) lines += "x\n";
  constexpr size_t kMost = 16u << 20;
  CHECK(client.Flood(lines, kMost) < kMost);
  REQUIRE(other.Greet());  // The others are served.
  while (!client.Wait(POLLOUT, 0)) {  // Once it reads, it is read again.
    REQUIRE(client.Wait(POLLIN, kPatienceMs));
    REQUIRE(client.Receive());
  }
}

TEST_CASE("reports that were sent before the end are read, however many") {
  Site site;
  constexpr uint64_t kReports = 1'000;
  {
    Client client(site.path);
    REQUIRE(client.Greet());
    std::string lines;
    for (uint64_t i = 0; i < kReports; ++i) lines += "{\"op\":\"report\",\"metrics\":{\"a\":1}}\n";
    client.Say(lines);
  }
  site.socket.Finish(site.attempt->fence());
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!site.attempt->IsSocketDone() && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  CHECK(site.attempt->IsSocketDone());
  CHECK(site.attempt->spool().last_seq() == kReports);
}

TEST_CASE("a trial that the head pauses at a row hears of the pause before the verdict") {
  Site site;
  Client client(site.path);
  REQUIRE(client.Greet());
  client.Say("{\"op\":\"report\",\"seq\":1,\"wait\":true,\"metrics\":{\"a\":1}}\n");
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (site.attempt->spool().last_seq() == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  site.attempt->OnVerdict({.acked_seq = 1, .suspend = true});
  site.socket.Wake();
  CHECK(client.Line().find("\"pause\"") != std::string::npos);
  CHECK(client.Line().find("\"continue\"") != std::string::npos);
}

TEST_CASE("a profile line that cannot be taken is dropped without an error, and said once") {
  Site site;
  Client client(site.path);
  REQUIRE(client.Greet());
  const std::string line = R"({"op":"profile","type":"profile","seq":1,"elastic":{}})"
                           "\n";
  client.Say(line + line +
             R"({"op":"report","seq":1,"metrics":{"loss":1}})"
             "\n");
  const std::string dropped = client.Line();
  CHECK(dropped.find(R"("op":"profile_dropped")") != std::string::npos);
  CHECK(dropped.find("not wanted") != std::string::npos);  // The attempt is not elastic.
  CHECK(dropped.find("error") == std::string::npos);
  CHECK(client.Line().find(R"("op":"ack")") != std::string::npos);
}

TEST_CASE("many refusals are one line in the log, and one more for each minute") {
  RefusalLog log;
  CHECK(log.Note(5) == 1);
  uint64_t logged = 0;
  for (int i = 0; i < 1'000; ++i) logged += log.Note(6);
  CHECK(logged == 0);
  CHECK(log.Note(4 + limits::kRefusalLogInterval) == 0);
  CHECK(log.Note(5 + limits::kRefusalLogInterval) == 1'002);
  CHECK(log.Note(6 + limits::kRefusalLogInterval) == 0);
}

}  // namespace
}  // namespace rt::worker
