// How much of what was freed the C library keeps for the next allocation. Chunks of 4 MiB come and
// go: by default each is memory that the kernel hands out, clears and takes back. The price is that
// much per arena that stays with the process, which adds up to more than a daemon needs for all
// else. So it is given back to the machine from time to time: when the process has grown by
// kGrowthKept, and after an attack, which leaves every arena large.
#pragma once

#include <atomic>

#include "common/base/time.h"

namespace rt {

void KeepFreedMemory();  // Once, at the start.

class FreedMemory {
 public:
  // A process that has grown by less keeps it, and it is looked at so often: filling what was given
  // back costs a few hundredths of a second.
  static constexpr Bytes kGrowthKept = 24 << 20;
  static constexpr Millis kLookAtGrowthEvery = 10'000;

  void NoteAttack(Millis now) { disturbed_at_ = now; }  // Any thread.
  bool is_quiet() const { return disturbed_at_ == 0; }
  void Look(Millis now);  // By one thread, every kLookAtGrowthEvery, after an attack more often.

 private:
  void LookAtGrowth(Millis now);

  std::atomic<Millis> disturbed_at_ = 0;  // 0: not since the memory was given back.
  bool trimmed_ = false, keeps_little_ = false;
  Bytes kept_ = 0;  // Resident after memory was last given back, or at the first look.
  Millis grown_at_ = 0;
};

}  // namespace rt
