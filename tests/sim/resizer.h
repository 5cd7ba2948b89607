// Whoever resizes trials: a person now, a policy later. It asks for random sizes of random trials
// that run, with random times to save, in every other seed and by random numbers of its own, so
// that the other seeds are as they were without it. One thread.
#pragma once

#include "tests/sim/auditor.h"
#include "tests/sim/head_host.h"
#include "tests/sim/sim.h"

namespace rt::sim {

class Resizer {
 public:
  Resizer(Sim& sim, HeadHost& head, const Auditor& auditor, uint64_t seed)
      : sim_(sim), head_(head), auditor_(auditor), rng_(seed, 3), rate_(rng_.Uniform()),
        is_active_(seed % 2 == 1) {}
  void Start() {
    if (is_active_) AskLater();
  }

 private:
  void AskLater();
  void Ask();
  Millis Between(Millis least, Millis most) {
    return least + static_cast<Millis>(rng_.Below(static_cast<uint64_t>(most - least + 1)));
  }

  Sim& sim_;
  HeadHost& head_;
  const Auditor& auditor_;
  Rng rng_;
  const double rate_;  // Of the times that it might ask.
  const bool is_active_;
};

}  // namespace rt::sim
