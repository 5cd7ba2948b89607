// One simulated cluster from its first token to the last experiment's end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/auditor.h"
#include "tests/sim/cloud_host.h"
#include "tests/sim/driver_host.h"
#include "tests/sim/head_host.h"
#include "tests/sim/resizer.h"
#include "tests/sim/sessions.h"
#include "tests/sim/sim.h"
#include "tests/sim/worker_host.h"

namespace rt::sim {

// No run is shorter than this, and none is without a fault that took effect.
inline constexpr uint64_t kInputsLeast = 500;
inline constexpr uint64_t kCloudInputsLeast = 100;

class Simulation {
 public:
  // `is_cloud`: a smaller world whose nodes are machines of a cloud, but one (docs/simulator.md).
  explicit Simulation(uint64_t seed, bool is_cloud = false);
  // Ends the process when something is not legal. Returns the final state's canonical bytes.
  std::string Run();
  const Sim& sim() const { return sim_; }
  // Before Run: `kept` is called with each batch that the head's disk has.
  void OnKept(std::function<void(const std::vector<Record>&, const std::vector<RowBatch>&)> kept) {
    sim_.on_kept = std::move(kept);
  }
  const Auditor& auditor() const { return auditor_; }

 private:
  // Somebody who asks until there is an answer, and then sometimes once more: a person, or a driver
  // for as long as it lives.
  struct Request {
    std::string key;
    Input input;
    JobId driver;  // 0: a person.
    std::function<bool()> lives;
    bool answered = false;
    uint64_t id = 0;
    std::string refusal;
  };
  void Submit();
  void Drive(JobId job, double step, std::function<bool()> lives);
  void Ask(size_t request);
  bool IsOpen(const Request& request) const;
  void TakeAnswer(size_t request, const Answer& answer);
  void CalamitiesLater();
  void StrikeNode(WorkerHost& host, bool may_leave);
  void AskToStop();
  void StopJob(JobId job);
  void AskToPause();
  void AskForMore();
  void AskToDrain();
  void AskToForget();
  void GiveNotice(WorkerHost& host, bool may_leave);
  // Says that somebody asks for it, and asks, once.
  void AskOnce(const std::string& what, const Input& input);
  void BecomeCalm();
  bool Finished();
  void ExpectNothingLeft();
  std::string Unanswered() const;
  std::string DrawExperiment(bool may_ask);
  std::string WithBounds(std::string text) const;
  std::string WithReallocation(std::string text) const;
  std::string WithAllocations(std::string text) const;
  std::string WithPreflight(std::string text) const;
  std::string WithFreezes(std::string text) const;
  std::string WithOtherScheduler(bool may_ask, std::string text) const;
  std::string WithOtherSearch(std::string text) const;
  std::string WithOutcomes(std::string text) const;
  std::string DrawCloudExperiment();
  Millis FaultsLast() const;
  // They cannot do without a slow link, which nobody repairs.
  bool spreads_tested_gangs() const { return sim_.links_stay && two_stay_; }
  uint64_t InputsLeast() const { return is_cloud_ ? kCloudInputsLeast : kInputsLeast; }

  const uint64_t seed_;
  const bool is_cloud_;
  Sim sim_;
  Auditor auditor_;
  HeadHost head_;
  bool two_stay_ = false;  // Two nodes never leave, so that STRICT_SPREAD of two is possible.
  std::vector<std::unique_ptr<WorkerHost>> hosts_;
  CloudHost cloud_;
  Resizer resizer_;
  SessionHost sessions_;
  std::vector<std::unique_ptr<Request>> requests_;
  bool closing_ = false;  // Nobody asks for anything any more.
  std::vector<std::unique_ptr<DriverHost>> drivers_;  // Of the experiments that ask.
};

}  // namespace rt::sim
