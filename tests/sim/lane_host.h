// The compute lane of a simulated head: the production desk and models. Answers take their time,
// come twice, or never; and what a head had asked before it crashed may still come to the next one,
// as from a lane in a process of its own.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "head/core/elastic.h"
#include "head/core/lane.h"
#include "tests/sim/sim.h"

namespace rt::sim {

class LaneHost {
 public:
  // `post` gives an answer to whichever head is up.
  LaneHost(Sim& sim, std::function<void(Input)> post) : sim_(sim), post_(std::move(post)) {}

  // After each batch of inputs. Returns answers in place of those that are overdue.
  std::vector<input::LaneAnswered> Ask(const Core& core, Millis now);
  void Take(const Input& input, uint64_t epoch);
  void Crash();

 private:
  void Answer(const LaneJob& job);
  void AnswerSizes(const ElasticQuestion& question);
  void NoteTruth(const input::LaneAnswered& answered);

  Sim& sim_;
  const std::function<void(Input)> post_;
  LaneDesk desk_;
  ElasticDesk elastic_;
  std::map<ExperimentId, LaneModel> models_;
};

}  // namespace rt::sim
