#include "common/rpc/freed_memory.h"

#include <malloc.h>

namespace rt {
namespace {

constexpr int kKept = 32 << 20;
constexpr int kKeptAfterAttack = 256 << 10;
constexpr int kArenasMax = 8;
// Quiet for so long before memory is given back, and once more when all calls have ended.
constexpr Millis kTrimAfter = 1'000;
constexpr Millis kTrimAgainAfter = 4'000;

}  // namespace

void KeepFreedMemory() {
  ::mallopt(M_MMAP_THRESHOLD, kKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
  ::mallopt(M_ARENA_MAX, kArenasMax);
}

void FreedMemory::Look(Millis now) {
  Millis since = disturbed_at_;
  if (since == 0) return;
  if (!keeps_little_) ::mallopt(M_TRIM_THRESHOLD, kKeptAfterAttack);
  keeps_little_ = true;
  if (now - since < (trimmed_ ? kTrimAgainAfter : kTrimAfter)) return;
  ::malloc_trim(0);
  trimmed_ = !trimmed_;
  if (trimmed_ || !disturbed_at_.compare_exchange_strong(since, 0)) return;
  KeepFreedMemory();
  keeps_little_ = false;
}

}  // namespace rt
