#include "common/rpc/freed_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/run/files.h"

namespace rt {
namespace {

constexpr int kKept = 32 << 20;
constexpr int kKeptAfterAttack = 256 << 10;
constexpr int kArenasMax = 8;
constexpr size_t kLargeBlock = 256 << 10;
// Quiet for so long before memory is given back, and once more when all calls have ended.
constexpr Millis kTrimAfter = 1'000;
constexpr Millis kTrimAgainAfter = 4'000;

// The process's own resident memory, without that of files.
Bytes ResidentBytes() {
  const absl::StatusOr<std::string> text = ReadFile("/proc/self/statm", 256);
  long long all = 0, resident = 0, shared = 0;
  if (!text.ok() || std::sscanf(text->c_str(), "%lld %lld %lld", &all, &resident, &shared) != 3)
    return 0;
  return (resident - shared) * ::sysconf(_SC_PAGESIZE);
}

// malloc_trim leaves the end of every arena but the first as it is. It is given back when a large
// block of that arena is freed: done here by as many threads as there are arenas, all at the same
// time, because the C library gives each the arena that was not used for the longest time.
void GiveBack() {
  ::mallopt(M_TRIM_THRESHOLD, kKeptAfterAttack);
  ::malloc_trim(0);
  std::mutex mutex;
  std::condition_variable changed;
  size_t holding = 0;
  bool may_free = false;
  auto visit = [&] {
    void* block = ::malloc(kLargeBlock);
    if (block != nullptr) *static_cast<volatile char*>(block) = 0;  // Else both calls are elided.
    {
      std::unique_lock lock(mutex);
      ++holding;
      changed.notify_all();
      changed.wait(lock, [&] { return may_free; });
    }
    ::free(block);
  };
  std::vector<std::thread> threads;
  threads.reserve(kArenasMax);
  try {
    while (threads.size() < kArenasMax) threads.emplace_back(visit);
  } catch (const std::system_error&) {
    // The machine has no more threads: what was not visited is given back another time.
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return holding == threads.size(); });
    may_free = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  KeepFreedMemory();
}

}  // namespace

void KeepFreedMemory() {
  ::mallopt(M_MMAP_THRESHOLD, kKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
  ::mallopt(M_ARENA_MAX, kArenasMax);
}

void FreedMemory::LookAtGrowth(Millis now) {
  if (grown_at_ != 0 && now - grown_at_ < kLookAtGrowthEvery) return;
  grown_at_ = now;
  const Bytes resident = ResidentBytes();
  if (resident == 0) return;  // It cannot be read now.
  kept_ = kept_ == 0 ? resident : std::min(kept_, resident);
  if (resident - kept_ < kGrowthKept) return;
  GiveBack();
  kept_ = ResidentBytes();
}

void FreedMemory::Look(Millis now) {
  LookAtGrowth(now);
  Millis since = disturbed_at_;
  if (since == 0) return;
  if (!keeps_little_) ::mallopt(M_TRIM_THRESHOLD, kKeptAfterAttack);
  keeps_little_ = true;
  if (now - since < (trimmed_ ? kTrimAgainAfter : kTrimAfter)) return;
  trimmed_ = !trimmed_;
  if (trimmed_) {
    ::malloc_trim(0);
    return;
  }
  GiveBack();  // All calls have ended: now the ends of the arenas are free as well.
  keeps_little_ = false;
  disturbed_at_.compare_exchange_strong(since, 0);  // Attacked again: it begins anew.
}

}  // namespace rt
