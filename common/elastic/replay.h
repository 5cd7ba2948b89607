// A replay of a trace of elastic jobs on a cluster that does not exist: the jobs train in simulated
// time with step times and noise that were measured once, and a scheduler gives them ranks once per
// interval. The rules of time are those of the simulator of Pollux (OSDI 2021, section 5.3), so its
// published completion times can be compared. `rt plan --elastic` and tests/bench use it with the
// policies that the head uses. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/elastic/allocation.h"
#include "common/elastic/class_memory.h"
#include "common/elastic/measured.h"
#include "common/elastic/submesh.h"

namespace rt {

struct ReplayRules {
  SubmeshCluster cluster{16, 4};
  double interval_s = 60;
  double restart_s = 30;
  bool has_class_memory = true;  // Otherwise each job learns for itself alone.
  bool learns_totals = false;    // The length of a job is not declared, but learnt by its class.
  uint32_t growth = 2, first = 1;
};

// A line of a workload: when the job is submitted, and what a scheduler without elasticity gives
// it.
struct ReplaySubmission {
  std::string name;
  double submitted_s = 0;
  std::string application;
  uint32_t ranks = 1;
  uint32_t batch = 0;
};
// Reads a workload: name,time,application,num_replicas,batch_size, with a line of titles.
absl::StatusOr<std::vector<ReplaySubmission>> ReadWorkload(const std::string& name,
                                                           std::string_view text);

// What the jobs of an application have taught so far.
struct ReplayClass {
  ClassMemory memory;
  std::unique_ptr<Speed> speed;
};

class ReplayJob {
 public:
  // `fixed_batch`: the total batch that it trains with; 0: its best one.
  ReplayJob(const ReplaySubmission& submission, const MeasuredApplication& application,
            const ReplayRules& rules, uint32_t fixed_batch);

  // Trains for so long. Unavailable where its application was not measured.
  absl::Status Advance(double seconds, ReplayClass& of_class);
  // Other nodes, or none: it restarts there.
  void Place(const RankNodes& nodes, const ReplayClass& of_class);
  // As a policy sees it.
  ElasticJob View(const ReplayClass& of_class) const;

  const ReplaySubmission& submission() const { return submission_; }
  const RankNodes& nodes() const { return nodes_; }
  bool is_done() const { return ended_s_ >= 0; }
  double ended_s() const { return ended_s_; }
  double completion_s() const { return ended_s_ - submission_.submitted_s; }
  uint32_t restarts() const { return restarts_; }
  double rank_seconds() const { return rank_seconds_; }

 private:
  const Speed* SpeedOf(const ReplayClass& of_class) const;
  void ChooseBatch(const ReplayClass& of_class);
  void Measure(double step_s, double sync_s, ReplayClass& of_class);
  void LearnNoise(const GradientNoise& noise, ReplayClass& of_class);
  void Finish(ReplayClass& of_class);

  const ReplaySubmission submission_;
  const MeasuredApplication* application_;
  const ReplayRules* rules_;
  const uint32_t fixed_batch_;
  double now_s_ = 0, ended_s_ = -1;
  double restarting_s_ = 0;  // Left of a restart.
  RankNodes nodes_;
  std::vector<uint32_t> shape_;  // Ranks on each of its nodes.
  uint32_t local_batch_ = 0, accumulation_ = 0;
  double progress_ = 0;
  size_t epoch_ = 0;
  GradientNoise noise_;
  bool has_noise_ = false;
  std::vector<StepPoint> points_;
  std::unique_ptr<Speed> speed_;  // Without class memory.
  uint32_t ranks_measured_ = 0;
  double slowness_ = 1;
  bool has_run_ = false;
  uint32_t restarts_ = 0;
  double rank_seconds_ = 0;
};

// Decides in a replay. `jobs`: those that were submitted and have not ended, in their order;
// answers with the nodes of each. `arrival_s`: as in ElasticRound.
class ReplayScheduler {
 public:
  virtual ~ReplayScheduler() = default;
  virtual std::vector<RankNodes> Decide(double now_s, double arrival_s,
                                        const std::vector<ReplayJob*>& jobs) = 0;
};
// The policy as the head has it, with placement on whole nodes.
std::unique_ptr<ReplayScheduler> MakeElasticScheduler(const ElasticPolicy& policy,
                                                      const ReplayRules& rules,
                                                      std::map<std::string, ReplayClass>& classes);

struct ReplayedJob {
  std::string name;
  double completion_s = 0;
  double ended_s = 0;
  uint32_t restarts = 0;
  double rank_seconds = 0;
};
struct ReplayResult {
  std::vector<ReplayedJob> jobs;
  double mean_s = 0, worst_percent_s = 0;  // Completion times: the mean, and the 99th percentile.
  double makespan_s = 0;
  double restarts = 0;    // Of a job, on average.
  double rank_hours = 0;  // The same.
  size_t rounds = 0;
};

using Applications = std::map<std::string, MeasuredApplication>;
using MakeScheduler =
    std::function<std::unique_ptr<ReplayScheduler>(std::map<std::string, ReplayClass>& classes)>;
// `tuned`: the jobs train with the batch of their submission.
absl::StatusOr<ReplayResult> Replay(const std::vector<ReplaySubmission>& workload,
                                    const Applications& applications, const ReplayRules& rules,
                                    const MakeScheduler& make, bool tuned = false);

}  // namespace rt
