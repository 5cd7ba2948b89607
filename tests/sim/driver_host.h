// A driver that an experiment asks for advice: it reads the durable journal in order, suggests and
// stops at random, and answers until it is heard. It may die with its answer on the way, and be run
// again while its predecessor still talks.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/head_host.h"
#include "tests/sim/sim.h"

namespace rt::sim {

class DriverHost {
 public:
  DriverHost(Sim& sim, HeadHost& head, ExperimentId experiment)
      : sim_(sim), head_(head), id_(experiment) {}

  void Start();
  // Runs it again after a while; the process before may go on until it is refused.
  void Kill();

 private:
  // What one process knows; gone with it.
  struct Life {
    bool lives = true;
    uint64_t session = 0;
    uint64_t answered = 0;
    std::string name;
    uint64_t answers = 0;  // Sent; one at a time is open.
    bool waits_for_answer = false;
    World seen;
  };
  using Self = std::shared_ptr<Life>;

  void Refused(const Self& self);
  void Attach(const Self& self);
  void Poll(const Self& self);
  void Take(const Self& self, const std::vector<Record>& news);
  void Decide(const Self& self, input::AnswerQuestions& answer);
  void Answer(const Self& self, uint64_t number, const input::AnswerQuestions& answer);

  Sim& sim_;
  HeadHost& head_;
  const ExperimentId id_;
  Self newest_;
  uint64_t lives_ = 0;
};

}  // namespace rt::sim
