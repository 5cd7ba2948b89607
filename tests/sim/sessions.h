// Drivers of tasks: each opens a session, outside or as part of a live attempt, asks for executors,
// says that it listens, releases some, and dies. In a third of the seeds, and by random numbers of
// its own, so that the other seeds are as they were without it. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/auditor.h"
#include "tests/sim/head_host.h"
#include "tests/sim/sim.h"

namespace rt::sim {

class SessionHost {
 public:
  SessionHost(Sim& sim, HeadHost& head, const Auditor& auditor, uint64_t seed)
      : sim_(sim), head_(head), auditor_(auditor), rng_(seed, 5), is_active_(seed % 3 == 2) {}
  void Start();

 private:
  struct Driver {
    TruthSession session;
    AttemptId opener;
    std::vector<std::string> keys;
    std::vector<ExecutorId> known;
    Millis dies_at = 0;
  };
  using Self = std::shared_ptr<Driver>;

  void OpenLater();
  void Open();
  void ActLater(const Self& self);
  void Act(const Self& self);
  void Request(const Self& self);
  void Release(const Self& self);
  void StopActors();
  Millis Between(Millis least, Millis most) {
    return least + static_cast<Millis>(rng_.Below(static_cast<uint64_t>(most - least + 1)));
  }
  // One message of the driver, which the head takes as a sign of it.
  void Say(const Self& self, const Input& input, HeadHost::AnswerFn done);

  Sim& sim_;
  HeadHost& head_;
  const Auditor& auditor_;
  Rng rng_;
  const bool is_active_;
  uint64_t opened_ = 0, actors_ = 0;
};

}  // namespace rt::sim
