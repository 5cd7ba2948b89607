#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "common/run/io_pool.h"

using namespace rt;
using namespace std::chrono_literals;

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
