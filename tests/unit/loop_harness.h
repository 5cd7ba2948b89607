// A head loop under test: over any journal, with futures for answers. Waits have a deadline.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "common/base/limits.h"
#include "head/journal/memory_journal.h"
#include "head/loop/head_loop.h"
#include "tests/patience.h"

namespace rt {

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

struct LoopHarness {
  std::promise<absl::Status> fatal;
  std::unique_ptr<HeadLoop> loop;

  void Start(Journal& journal, HeadLoop::Options options = {}) {
    options.on_fatal = [this](absl::Status status) { fatal.set_value(std::move(status)); };
    auto started = HeadLoop::Start(journal, {"id", "test", "1"}, std::move(options));
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    loop = std::move(*started);
  }
  // Runs on the core thread; returns when what it saw is durable.
  void Read(const std::function<void(const Core&)>& read) {
    std::promise<void> done;
    loop->Query(read, [&](const absl::Status&) { done.set_value(); });
    auto future = done.get_future();
    Wait(future);
  }
  std::string Dump() {
    std::string dump;
    Read([&](const Core& core) { dump = CanonicalDump(core.world.state); });
    return dump;
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
  std::future<SyncReply> Sync(NodeId node, const SyncReply& seen = {}, uint64_t open_seq = 0,
                              std::vector<Observed> observed = {}) {
    input::Sync sync{.node = node, .incarnation = 7, .sync_seq = ++sync_seq};
    sync.observed = std::move(observed);
    sync.inventory.resources.cpu = 2 * kUnit;
    sync.seen_epoch = seen.epoch;
    auto replied = std::make_shared<std::promise<SyncReply>>();
    loop->PostSync(std::move(sync), {seen.version, open_seq},
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

// Over a journal in memory.
struct Harness : LoopHarness {
  MemoryJournal journal;
  explicit Harness(HeadLoop::Options options = {}) { LoopHarness::Start(journal, options); }
  ~Harness() { journal.Hold(false); loop.reset(); }
  void Start() { LoopHarness::Start(journal); }
};

inline input::SubmitJob AJob() { return {"me", R"({"name":"j","argv":["true"]})", "key"}; }

}  // namespace rt
