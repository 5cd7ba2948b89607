// Elastic owners: live attempts whose request has bounds, and whose number of ranks the head
// changes while they run (docs/adr/0035). Two decisions, both carried out as resizes (resize.cc):
//  * Step shrinks elastic attempts at once for owners that wait for capacity, down to their
//    minimum.
//  * A policy on the compute lane answers how the other capacity is shared out. A question is a
//    value, its answer follows from it alone, and Step checks each size against
//    its state when it arrives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/elastic/allocation.h"
#include "common/search/model.h"
#include "head/core/core.h"
#include "head/core/profiles.h"

namespace rt {

struct ElasticQuestion {
  struct Job {
    AttemptId attempt;
    std::string job_class;
    ElasticJob now;  // Without what was measured.
  };
  // Owners that share one kind of capacity: those that ask for gpus, and the others.
  struct Group {
    std::vector<Job> jobs;  // In the order of their arrival.
    double capacity = 0;
    uint32_t ranks_per_node = 1;
  };
  uint64_t epoch = 0;
  uint64_t observed_through = 0;
  Millis asked_at = 0;
  double arrival_s = 0;
  std::vector<Group> groups;
  ElasticMemory memory;
};

// elastic_answer.cc: by an equal split where nothing was measured of any job of a group, and by
// costates otherwise. `give_up`: there is no time left; the answer has no groups then.
input::ElasticAnswered AnswerElastic(const ElasticQuestion& question, const GiveUp& give_up = {});
// The question of a whole answer; `memory` is what was known when it was asked.
ElasticQuestion QuestionOf(const event::SizesAnswered& answer, ElasticMemory memory);

// elastic_shares.cc. The elastic owners that hold capacity, in the order of their arrival.
std::vector<Owner> ElasticOwners(const World& world);
// What a policy is asked about in this state. The capacity and which attempts may not change are
// left out: the state does not say them. Jobs that ask for gpus are the second group.
std::vector<SharedGroup> SharedIn(const World& world);
// The part of a whole answer that is journalled: what it changes.
event::SizesAnswered ChangesOf(const event::SizesAnswered& answer);
// The whole answer, as far as its question goes, by what the policy was asked about. A journalled
// answer that does not fit to that has no groups then.
event::SizesAnswered WholeOf(const event::SizesAnswered& answer,
                             const std::vector<SharedGroup>& asked_about);

// What the lane is asked about elastic owners; one question at a time. Soft, as LaneDesk.
class ElasticDesk {
 public:
  // nullopt: nothing changed that matters, or an answer is awaited.
  std::optional<ElasticQuestion> Ask(const Core& core, Millis now);
  void Take(const input::ElasticAnswered& answered);

 private:
  bool is_under_way_ = false;
  Millis asked_at_ = 0, looked_at_ = 0;
  std::vector<AttemptId> asked_about_;
  uint64_t asked_version_ = 0, asked_profiles_ = 0;
};

// What is counted of resources: gpus or cpus, at least 1.
int64_t ElasticUnits(const Resources& resources, bool by_gpu);

// The seconds that a change of its size costs the owner, as measured; without a measurement a
// guess.
double RestartSeconds(const Runs& runs);

}  // namespace rt
