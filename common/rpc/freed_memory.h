// How much of what was freed the C library keeps for the next allocation. Chunks of 4 MiB come and
// go: by default each is memory that the kernel hands out, clears and takes back. The price is that
// much per arena that stays with the process. An attack leaves every arena large, so after one the
// memory is given back to the machine, and less is kept until then.
#pragma once

#include <atomic>

#include "common/base/time.h"

namespace rt {

void KeepFreedMemory();  // Once, at the start.

class FreedMemory {
 public:
  void NoteAttack(Millis now) { disturbed_at_ = now; }  // Any thread.
  bool is_quiet() const { return disturbed_at_ == 0; }
  void Look(Millis now);  // By one thread, a few times a second.

 private:
  std::atomic<Millis> disturbed_at_ = 0;  // 0: not since the memory was given back.
  bool trimmed_ = false, keeps_little_ = false;
};

}  // namespace rt
