// Real memory of this process, which is why other tests do not run in it.
#include "common/rpc/freed_memory.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "common/run/files.h"

using namespace rt;

namespace {

constexpr size_t kChunk = 4 << 20;

Bytes Resident() {
  long long all = 0, resident = 0;
  std::sscanf(ReadFile("/proc/self/statm")->c_str(), "%lld %lld", &all, &resident);
  return resident * ::sysconf(_SC_PAGESIZE);
}

// As pushes and pulls do: several threads, each with chunks in an arena of its own.
void MoveChunks(int threads, size_t chunks) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([chunks] {
      std::vector<std::unique_ptr<char[]>> held;
      for (size_t k = 0; k < chunks; ++k) {
        held.push_back(std::make_unique<char[]>(kChunk));
        std::memset(held.back().get(), 1, kChunk);
      }
    });
  for (std::thread& one : all) one.join();
}

}  // namespace

TEST_CASE("memory: what transfers leave behind is given back when the process has grown") {
  KeepFreedMemory();
  FreedMemory memory;
  Millis now = 1'000;
  memory.Look(now);
  const Bytes before = Resident();
  MoveChunks(6, 6);
  const Bytes grown = Resident();
  REQUIRE(grown - before > 2 * FreedMemory::kGrowthKept);
  now += FreedMemory::kLookAtGrowthEvery - 1;
  memory.Look(now);
  CHECK(Resident() > grown - FreedMemory::kGrowthKept);  // It was looked at a moment ago.
  memory.Look(now + 1);
  CHECK(Resident() < before + FreedMemory::kGrowthKept / 2);
}
