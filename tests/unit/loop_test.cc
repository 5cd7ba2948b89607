#include <catch2/catch.hpp>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "common/base/limits.h"
#include "head/journal/memory_journal.h"
#include "head/loop/head_loop.h"

using namespace rt;

namespace {

constexpr std::chrono::seconds kPatience{10};

template <class T>
T Wait(std::future<T>& future) {
  REQUIRE(future.wait_for(kPatience) == std::future_status::ready);
  return future.get();
}
template <class T>
bool IsReady(std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}
template <class F>
void WaitFor(F&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
}

struct Answered {
  absl::Status status;
  Answer answer;
};

struct Harness {
  MemoryJournal journal;
  std::promise<absl::Status> fatal;
  std::unique_ptr<HeadLoop> loop;

  Harness() { Start(); }
  ~Harness() { journal.Hold(false); }
  void Start() {
    auto started = HeadLoop::Start(journal, {"id", "test", "1"},
                                   {.on_fatal = [this](absl::Status status) {
                                     fatal.set_value(std::move(status));
                                   }});
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    loop = std::move(*started);
  }
  std::future<Answered> Post(Input input) {
    auto answered = std::make_shared<std::promise<Answered>>();
    loop->Post(std::move(input), [answered](absl::Status status, const Answer& answer) {
      answered->set_value({std::move(status), answer});
    });
    return answered->get_future();
  }
  NodeId Join() {
    auto created = Post(input::CreateToken{"tok", "worker", 60'000, ""});
    REQUIRE(Wait(created).status.ok());
    auto used = Post(input::UseToken{"tok", "n1"});
    return Wait(used).answer.node;
  }
  std::future<SyncReply> Sync(NodeId node, const SyncReply& seen = {}) {
    input::Sync sync{.node = node, .incarnation = 7, .sync_seq = ++sync_seq};
    sync.inventory.resources.cpu = 2 * kUnit;
    auto replied = std::make_shared<std::promise<SyncReply>>();
    loop->PostSync(std::move(sync), seen.epoch, seen.version,
                   [replied](SyncReply reply) { replied->set_value(std::move(reply)); });
    return replied->get_future();
  }
  // Syncs until the worker is up to date: the next Sync is parked.
  SyncReply Settle(NodeId node) {
    auto first = Sync(node);
    SyncReply seen = Wait(first);
    for (int i = 0; i < 3; ++i) {
      auto next = Sync(node, seen);
      const SyncReply reply = Wait(next);
      if (reply.version == seen.version) break;
      seen = reply;
    }
    return seen;
  }
  uint64_t sync_seq = 0;
};

input::SubmitJob AJob() { return {"me", R"({"name":"j","argv":["true"]})", "key"}; }

}  // namespace

TEST_CASE("loop: an answer waits until what it saw is durable") {
  Harness harness;
  harness.journal.Hold(true);
  auto answer = harness.Post(input::CreateToken{"tok", "worker", 60'000, ""});
  WaitFor([&] { return harness.journal.waiting() > 0; });
  std::promise<void> read_done;
  auto read = read_done.get_future();
  size_t tokens = 0;
  harness.loop->Query([&](const Core& core) { tokens = core.world.state.tokens.size(); },
                      [&](const absl::Status&) { read_done.set_value(); });
  CHECK(!IsReady(answer));
  CHECK(!IsReady(read));
  harness.journal.Hold(false);
  CHECK(Wait(answer).status.ok());
  Wait(read);
  CHECK(tokens == 1);
}

TEST_CASE("loop: a failed append is fatal, and nothing of it is seen") {
  Harness harness;
  harness.journal.Fail(absl::InternalError("disk"));
  auto answer = harness.Post(input::CreateToken{"tok", "worker", 60'000, ""});
  auto fatal = harness.fatal.get_future();
  CHECK(absl::IsInternal(Wait(fatal)));
  CHECK(!Wait(answer).status.ok());
}

TEST_CASE("loop: a parked Sync is answered when its node turns dirty") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  auto parked = harness.Sync(node, seen);
  auto job = harness.Post(AJob());
  CHECK(Wait(job).status.ok());
  const SyncReply reply = Wait(parked);
  CHECK(reply.version > seen.version);
  REQUIRE(reply.desired.size() == 1);
  REQUIRE(reply.bodies.size() == 1);
  CHECK(reply.bodies[0].argv == std::vector<std::string>{"true"});
}

TEST_CASE("loop: a parked Sync is answered with the hold, by a newer one, and by Wake") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  const auto start = std::chrono::steady_clock::now();
  auto held = harness.Sync(node, seen);
  CHECK(Wait(held).version == seen.version);
  CHECK(std::chrono::steady_clock::now() - start >=
        std::chrono::milliseconds(limits::kSyncHold / 2));
  auto older = harness.Sync(node, seen);
  auto newer = harness.Sync(node, seen);
  Wait(older);
  harness.loop->Wake(node);
  CHECK(Wait(newer).version > seen.version);
}

TEST_CASE("loop: an unknown node's Sync is NotFound") {
  Harness harness;
  auto sync = harness.Sync(NodeId{42});
  CHECK(absl::IsNotFound(Wait(sync).status));
}

TEST_CASE("loop: a restart replays what was durable under a new epoch") {
  Harness harness;
  const NodeId node = harness.Join();
  auto job = harness.Post(AJob());
  CHECK(Wait(job).answer.job == JobId{1});
  harness.loop.reset();
  harness.Start();
  auto again = harness.Post(AJob());
  const Answered answered = Wait(again);
  CHECK(answered.answer.attached);
  CHECK(answered.answer.job == JobId{1});
  auto sync = harness.Sync(node);
  CHECK(Wait(sync).epoch == 2);
}
