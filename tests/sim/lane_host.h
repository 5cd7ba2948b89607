// The compute lane of a simulated head: the production desk and models. Answers take their time,
// come twice, or never; and what a head had asked before it crashed may still come to the next one,
// as from a lane in a process of its own.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "head/core/lane.h"
#include "tests/sim/sim.h"

namespace rt::sim {

class LaneHost {
 public:
  // `post` gives an answer to whichever head is up.
  LaneHost(Sim& sim, std::function<void(input::LaneAnswered)> post)
      : sim_(sim), post_(std::move(post)) {}

  // After each batch of inputs. Returns answers in place of those that are overdue.
  std::vector<input::LaneAnswered> Ask(const Core& core, Millis now);
  void Take(const input::LaneAnswered& answered, uint64_t epoch);
  void Crash();

 private:
  void Answer(const LaneJob& job);
  void NoteTruth(const input::LaneAnswered& answered);

  Sim& sim_;
  const std::function<void(input::LaneAnswered)> post_;
  LaneDesk desk_;
  std::map<ExperimentId, LaneModel> models_;
};

}  // namespace rt::sim
