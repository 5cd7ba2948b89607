#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "common/run/inbox.h"
#include "common/run/io_pool.h"

using namespace rt;
using namespace std::chrono_literals;

namespace {
SteadyTime In(std::chrono::milliseconds span) { return std::chrono::steady_clock::now() + span; }
}  // namespace

TEST_CASE("inbox: reserved room is for those who may use it, and nobody gets more than there is") {
  Inbox<int> inbox(3, 1);
  CHECK(inbox.Push(1));
  CHECK(inbox.Push(2));
  CHECK(!inbox.Push(3));
  CHECK(inbox.Push(4, true));
  CHECK(!inbox.Push(5, true));
  CHECK(inbox.PopBatch(2, In(0ms)) == std::vector<int>{1, 2});
  CHECK(inbox.PopBatch(9, In(0ms)) == std::vector<int>{4});
  CHECK(inbox.PopBatch(9, In(0ms)).empty());
}

TEST_CASE("inbox: a refused item stays with its owner") {
  Inbox<std::unique_ptr<int>> inbox(0);
  auto item = std::make_unique<int>(7);
  CHECK(!inbox.Push(std::move(item)));
  CHECK(item != nullptr);
}

TEST_CASE("inbox: a push, a wake and a close end the wait") {
  for (int way = 0; way < 3; ++way) {
    Inbox<int> inbox(4);
    std::thread other([&] {
      if (way == 0) inbox.Push(1);
      if (way == 1) inbox.Wake();
      if (way == 2) inbox.Close();
    });
    CHECK(inbox.PopBatch(4, In(20s)).size() == (way == 0 ? 1 : 0));
    other.join();
    CHECK(inbox.closed() == (way == 2));
    CHECK(inbox.Push(1) == (way != 2));
  }
}

TEST_CASE("inbox: nothing is lost or repeated among threads") {
  Inbox<int> inbox(64);
  constexpr int kEach = 2'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kEach;)
        if (inbox.Push(1)) ++i;
    });
  int sum = 0;
  while (sum < 3 * kEach)
    for (int one : inbox.PopBatch(10, In(20s))) sum += one;
  for (std::thread& thread : threads) thread.join();
  CHECK(sum == 3 * kEach);
  CHECK(inbox.size() == 0);
}

TEST_CASE("io pool: the queue is bounded, and everything taken is run") {
  std::atomic<int> ran{0};
  std::atomic<bool> go{false};
  {
    IoPool pool(1, 2);
    auto job = [&] {
      go.wait(false);
      ++ran;
    };
    int taken = 0;
    while (pool.TrySubmit(job)) ++taken;
    CHECK(taken >= 2);
    go = true;
    go.notify_all();
    pool.Drain();
    CHECK(ran == taken);
    ran = 0;
    for (int i = 0; i < 100; ++i) CHECK(pool.Submit([&] { ++ran; }));
  }
  CHECK(ran == 100);
  IoPool stopped(1, 1);
  stopped.Stop();
  CHECK(!stopped.Submit([] {}));
}
