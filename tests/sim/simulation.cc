#include "tests/sim/simulation.h"

#include "common/base/limits_executors.h"

namespace rt::sim {
namespace {

constexpr uint64_t kLinksStream = 0x6c696e6b;
constexpr Millis kFaultsLast = 45'000;
constexpr Millis kCloudFaultsLast = 15'000;
// What the circuit breaker holds back (limits::kFreezeMax) is lost by then.
constexpr Millis kCalmSettles = 55'000;
constexpr Millis kLivenessLimit = 600'000;
// With machines that never boot, which are given up after 15 minutes.
constexpr Millis kCloudLivenessLimit = 2'400'000;
// From the last end until the last program and run directory are gone.
// A driver whose request was on its way at the end may have died: its session ends after the lease.
constexpr Millis kCleanupLimit = 30'000 + limits::kSessionLease;

}  // namespace

Simulation::Simulation(uint64_t seed, bool is_cloud)
    : seed_(seed), is_cloud_(is_cloud), sim_(seed, is_cloud), head_(sim_, auditor_),
      cloud_(sim_, head_, auditor_, seed, is_cloud), resizer_(sim_, head_, auditor_, seed),
      sessions_(sim_, head_, auditor_, seed) {
  sim_.on_driver_step = [this](JobId job, double step, std::function<bool()> lives) {
    Drive(job, step, std::move(lives));
  };
  sim_.links_stay = Mix64(seed_ ^ kLinksStream) % 2 == 0;
  if (is_cloud_) {  // The worker of the head's machine.
    hosts_.push_back(
        std::make_unique<WorkerHost>(sim_, head_, auditor_, "head", Resources{.cpu = kUnit}));
    sim_.hosts.push_back(hosts_.back().get());
    return;
  }
  const size_t nodes = 2 + sim_.rng.Below(3);
  two_stay_ = sim_.rng.Chance(0.5);
  for (size_t i = 0; i < nodes; ++i) {
    Resources size;
    // The first node never leaves and can run everything.
    size.cpu = i == 0 ? 4 * kUnit : static_cast<int64_t>(1 + sim_.rng.Below(4)) * kUnit;
    size.gpu = i == 0 ? 2 * kUnit : static_cast<int64_t>(sim_.rng.Below(3)) * kUnit;
    if (i == 1 && spreads_tested_gangs()) size.gpu = std::max(size.gpu, kUnit);
    hosts_.push_back(std::make_unique<WorkerHost>(sim_, head_, auditor_,
                                                  "node" + std::to_string(i), size));
    sim_.hosts.push_back(hosts_.back().get());
  }
}

Millis Simulation::FaultsLast() const { return is_cloud_ ? kCloudFaultsLast : kFaultsLast; }

std::string Simulation::Run() {
  const Millis started = sim_.now;
  cloud_.Start();
  if (!is_cloud_) resizer_.Start();
  if (!is_cloud_) sessions_.Start();
  head_.Start();
  for (auto& host : hosts_) {
    sim_.At(sim_.Between(1, 2'000), [&host] {
      if (host->present()) host->Boot();  // It may have left before.
    });
  }
  const uint64_t first = 1 + sim_.rng.Below(3);
  for (uint64_t i = 0; i < first; ++i) sim_.At(sim_.Between(1, 4'000), [this] { Submit(); });
  CalamitiesLater();
  sim_.At(FaultsLast(), [this] { BecomeCalm(); });
  const Millis limit = is_cloud_ ? kCloudLivenessLimit : kLivenessLimit;
  Millis next_look = started + 5'000;
  while (true) {
    Require(sim_.RunNext(), "nothing is left to do");
    if (sim_.now < next_look) continue;
    next_look = sim_.now + 200;
    if (Finished()) break;
    if (sim_.now > started + FaultsLast() + limit) {
      Fail("stuck: no end " + std::to_string(limit / 1'000) + " s after the faults stopped" +
           auditor_.Unfinished() + auditor_.Awaited(sim_.truth) + Unanswered());
    }
  }
  auditor_.ExpectAllOver();
  ExpectNothingLeft();
  if (head_.in_flight() == 0) auditor_.ExpectOutputs(head_.core().world.state);
  return head_.CheckReplay();
}

void Simulation::ExpectNothingLeft() {
  sim_.calm = closing_ = true;  // Neither faults nor new work.
  const Millis until = sim_.now + kCleanupLimit;
  auto is_clean = [](const auto& host) { return host->IsClean(); };
  while (!std::all_of(hosts_.begin(), hosts_.end(), is_clean)) {
    Require(sim_.RunNext(), "nothing is left to do");
    if (sim_.now > until) Fail("programs are left after the end" + Unanswered());
  }
  const Millis gone_by =
      sim_.now + (is_cloud_ ? CloudHost::kSettlesWithNeverBooted : CloudHost::kSettles);
  while (!cloud_.IsSettled()) {
    Require(sim_.RunNext(), "nothing is left to do");
    if (sim_.now > gone_by) Fail("machines are left after the end" + cloud_.Describe());
  }
}

bool Simulation::Finished() {
  if (!auditor_.AllOver() || auditor_.AwaitsStore(sim_.truth)) return false;
  for (const auto& request : requests_) {
    if (IsOpen(*request)) return false;
  }
  if (sim_.inputs >= InputsLeast() && sim_.faults.Total() > 0) return true;
  if (sim_.faults.Total() == 0 && sim_.inputs >= InputsLeast()) head_.Crash();
  Submit();
  return false;
}

void Simulation::BecomeCalm() {
  sim_.calm = true;
  sim_.calm_at = sim_.now;
  sim_.At(kCalmSettles, [this] { auditor_.ExpectCalm(); });
}

void Simulation::CalamitiesLater() {
  sim_.At(sim_.Between(500, 1'500), [this] {
    AskToStop();
    AskToPause();
    AskToDrain();
    if (sim_.calm) return CalamitiesLater();  // People go on.
    if (sim_.Strikes(sim_.plan.head_stopped, Fault::kHeadStopped)) {
      head_.Stop(sim_.Between(200, 5'000));
    }
    // Right after something was appended, so that batches are in flight.
    if (head_.up() && sim_.rng.Chance(sim_.plan.head_crashed)) {
      sim_.At(sim_.Between(0, 300), [this] { head_.Crash(); });
    }
    if (head_.up() && sim_.rng.Chance(sim_.plan.taken_over)) {
      sim_.At(sim_.Between(0, 300), [this] { head_.TakeOver(); });
    }
    AskForMore();
    for (size_t i = 0; i < hosts_.size(); ++i) StrikeNode(*hosts_[i], i > (two_stay_ ? 1 : 0));
    cloud_.Strike();
    for (auto& driver : drivers_)
      if (sim_.rng.Chance(sim_.plan.driver_killed)) driver->Kill();
    if (sim_.rng.Chance(0.1)) Submit();
    CalamitiesLater();
  });
}

void Simulation::StrikeNode(WorkerHost& host, bool may_leave) {
  if (!host.present()) return;
  const FaultPlan& plan = sim_.plan;
  auto chance = [&](double probability) { return sim_.rng.Chance(probability); };
  if (chance(plan.daemon_killed)) host.KillDaemon();
  if (chance(plan.stopped_in_order)) host.StopInOrder();
  if (chance(plan.node_rebooted)) host.Reboot(sim_.rng.Chance(0.6));
  if (may_leave && chance(plan.node_gone)) return host.LeaveForGood();
  if (!host.daemon_up()) return;
  if (sim_.Strikes(plan.daemon_stopped, Fault::kDaemonStopped)) {
    host.StopDaemon(sim_.Between(200, 6'000));
  }
  if (sim_.Strikes(plan.node_frozen, Fault::kNodeFrozen)) host.Freeze(sim_.Between(200, 6'000));
  if (chance(plan.gpu_sick)) host.SickenGpu();
  host.KillFrozen();
  if (sim_.Strikes(plan.drained, Fault::kNodeDrained)) GiveNotice(host, may_leave);
  if (host.node().value != 0 && sim_.Strikes(plan.node_removed, Fault::kNodeRemoved)) {
    sim_.truth.asked.insert("remove " + std::to_string(host.node().value));
    head_.Post(input::RemoveNode{host.node(), "by hand"}, {});
  }
}

void Simulation::GiveNotice(WorkerHost& host, bool may_leave) {
  const Millis deadline = host.Drain();
  if (sim_.rng.Chance(0.5)) return;
  const Millis goes = sim_.rng.Chance(0.7) ? deadline : sim_.Between(0, deadline);
  sim_.At(goes, [this, &host, may_leave] {
    if (sim_.calm || !host.present() || !host.daemon_up()) return;
    sim_.faults.Add(Fault::kNoticeTrue);
    if (may_leave && sim_.rng.Chance(0.3)) return host.LeaveForGood();
    host.Reboot(sim_.rng.Chance(0.6));
  });
}

std::string Simulation::Unanswered() const {
  std::string text;
  for (const auto& request : requests_) {
    if (IsOpen(*request)) text += "\n  " + request->key + " unanswered: " + request->refusal;
  }
  for (const WorkerHost* host : sim_.hosts) text += host->Describe();
  return text;
}

// --- people -------------------------------------------------------------------------------------

void Simulation::Submit() {
  auto request = std::make_unique<Request>();
  request->key = "request-" + std::to_string(requests_.size());
  if (sim_.rng.Chance(0.25)) {
    input::SubmitJob job{"ann", R"({"name":"drive","argv":["python","drive.py"]})", request->key};
    if (sim_.rng.Chance(0.5)) {
      job.spec = R"({"name":"drive","argv":["python"],"resources":{"cpu":1}})";
    }
    request->input = job;
  } else {
    input::CreateExperiment create;
    create.owner = "ann";
    create.spec = DrawExperiment(true);
    create.request_key = request->key;
    create.drawn_seed = sim_.rng.Next();
    create.results_root = "/home/ann/rt_results";
    request->input = create;
  }
  requests_.push_back(std::move(request));
  Ask(requests_.size() - 1);
}

// A driver's script: it starts an experiment at three of its steps, under keys that follow from its
// job, so that one that is run again finds what it had started.
void Simulation::Drive(JobId job, double step, std::function<bool()> lives) {
  if (job.value % 2 == 0 || (step != 2 && step != 5 && step != 8)) return;
  const std::string key =
      "job-" + std::to_string(job.value) + "/" + std::to_string(static_cast<int>(step));
  size_t index = 0;
  while (index < requests_.size() && requests_[index]->key != key) ++index;
  if (index == requests_.size()) {
    auto request = std::make_unique<Request>();
    request->key = key;
    request->driver = job;
    input::CreateExperiment create;
    create.owner = "ann";
    create.job = job;
    create.spec = DrawExperiment(false);
    create.request_key = key;
    create.drawn_seed = sim_.rng.Next();
    create.results_root = "/home/ann/rt_results";
    request->input = create;
    requests_.push_back(std::move(request));
    // A person stops it just as it starts something.
    if (!sim_.calm && sim_.rng.Chance(sim_.plan.stop_requested)) {
      sim_.At(sim_.Between(0, 200), [this, job] { StopJob(job); });
    }
  }
  requests_[index]->lives = std::move(lives);
  Ask(index);
}

bool Simulation::IsOpen(const Request& request) const {
  return !request.answered && (!request.lives || request.lives());
}

void Simulation::Ask(size_t index) {
  sim_.Call([this, index](const Sim::Reply& reply) {
    head_.Post(requests_[index]->input,
               [this, index, reply](const absl::Status& status, const Answer& answer) {
                 // Nothing that is large enough has joined yet: the person asks again.
                 requests_[index]->refusal = status.ToString();
                 if (absl::IsInvalidArgument(status)) return;
                 // Its job is being stopped, or over: a driver may hear that before its SIGTERM.
                 const JobId driver = requests_[index]->driver;
                 if (driver.value != 0 && absl::IsFailedPrecondition(status) &&
                     (sim_.truth.stops.contains(Owner::Of(driver)) || auditor_.IsOver(driver)))
                   return;
                 if (!status.ok()) Fail("a good request was refused: " + status.ToString());
                 reply([this, index, answer] { TakeAnswer(index, answer); });
               });
  });
  sim_.At(700, [this, index] {
    if (IsOpen(*requests_[index])) Ask(index);
  });
}

void Simulation::TakeAnswer(size_t index, const Answer& answer) {
  Request& request = *requests_[index];
  const uint64_t id = answer.job.value + answer.experiment.value;
  Require(answer.job.value != 0 ? auditor_.Knows(answer.job) : auditor_.Knows(answer.experiment),
          "answered before durable");
  Require(!request.answered || request.id == id, "a retry got another answer");
  const auto* create = std::get_if<input::CreateExperiment>(&request.input);
  if (!request.answered && create != nullptr && create->spec.find("driver") != std::string::npos) {
    drivers_.push_back(std::make_unique<DriverHost>(sim_, head_, answer.experiment));
    drivers_.back()->Start();
  }
  request.id = id;
  if (!request.answered && sim_.rng.Chance(0.1)) {
    sim_.At(sim_.Between(1, 3'000), [this, index] { Ask(index); });
  }
  request.answered = true;
}

void Simulation::AskToStop() {
  if (requests_.empty() || !sim_.rng.Chance(sim_.plan.stop_requested)) return;
  const Request& request = *requests_[sim_.rng.Below(requests_.size())];
  if (!request.answered) return;
  if (sim_.calm && !sim_.rng.Chance(0.2)) return;
  if (std::holds_alternative<input::SubmitJob>(request.input)) return StopJob({request.id});
  sim_.faults.Add(Fault::kStopRequested);
  Input stop = input::StopExperiment{{request.id}, "enough"};
  if (sim_.rng.Chance(0.7)) {
    const TrialId trial{{request.id}, static_cast<uint32_t>(sim_.rng.Below(4))};
    stop = input::StopTrial{trial, "enough"};
    sim_.truth.stops.insert(Owner::Of(trial));
  } else {
    sim_.truth.experiment_stops.insert(ExperimentId{request.id});
  }
  sim_.Call([this, stop](const Sim::Reply&) { head_.Post(stop, {}); });
}

void Simulation::StopJob(JobId job) {
  sim_.faults.Add(Fault::kStopRequested);
  sim_.truth.stops.insert(Owner::Of(job));
  sim_.Call([this, job](const Sim::Reply&) { head_.Post(input::StopJob{job, "enough"}, {}); });
}

void Simulation::AskOnce(const std::string& what, const Input& input) {
  sim_.truth.asked.insert(what);
  sim_.Call([this, input](const Sim::Reply&) {
    if (!closing_) head_.Post(input, {});
  });
}

// People pause, and sooner or later let everything go on that is paused.
void Simulation::AskToPause() {
  for (ExperimentId id : auditor_.PausedExperiments()) {
    if (sim_.rng.Chance(0.3))
      AskOnce("resume " + std::to_string(id.value), input::ResumeExperiment{id});
  }
  for (TrialId id : auditor_.PausedTrials()) {
    if (sim_.rng.Chance(0.3)) AskOnce("resume " + ToString(id), input::ResumeTrial{id});
  }
  if (requests_.empty() || sim_.calm || !sim_.rng.Chance(sim_.plan.paused)) return;
  const Request& request = *requests_[sim_.rng.Below(requests_.size())];
  if (!request.answered || std::holds_alternative<input::SubmitJob>(request.input)) return;
  sim_.faults.Add(Fault::kPauseRequested);
  const ExperimentId experiment{request.id};
  if (sim_.rng.Chance(0.5)) {
    AskOnce("pause " + std::to_string(experiment.value),
            input::PauseExperiment{experiment, "for now"});
  } else {
    const TrialId trial{experiment, static_cast<uint32_t>(sim_.rng.Below(4))};
    AskOnce("pause " + ToString(trial), input::PauseTrial{trial, PauseCause::kUser, "for now"});
  }
}

// People drain nodes, and sooner or later take each back.
void Simulation::AskToDrain() {
  for (NodeId id : auditor_.DrainedNodes()) {
    if (sim_.rng.Chance(0.1))
      AskOnce("undrain " + std::to_string(id.value), input::UndrainNode{id});
  }
  for (const auto& host : hosts_) {
    const std::optional<uint32_t> gpu = host->ProbedAtFault();
    if (!gpu || host->node().value == 0) continue;
    sim_.faults.Add(Fault::kProbedAtFault);
    AskOnce("probe " + std::to_string(host->node().value) + " " + std::to_string(*gpu),
            input::QuarantineGpu{host->node(), std::to_string(*gpu), "it is slow"});
  }
  // A quarantine is taken back as well, by a person or by a probe in turn.
  for (const auto& host : hosts_) {
    const std::optional<uint32_t> gpu = host->QuarantinedGpu();
    if (!gpu || host->node().value == 0) continue;
    AskOnce("clear " + std::to_string(host->node().value) + " " + std::to_string(*gpu),
            input::UndrainNode{host->node(), std::to_string(*gpu),
                               sim_.now / 256 % 2 == 0 ? "it is well" : ""});
  }
  for (NodeId id : auditor_.NodesWithSlowLinks()) {  // Repaired sooner or later, if at all.
    if (sim_.links_stay) break;
    if (sim_.calm || Mix64(static_cast<uint64_t>(sim_.now) + id.value) % 32 == 0)
      AskOnce("links " + std::to_string(id.value), input::UndrainNode{.node = id, .links = true});
  }
  AskToForget();
  if (sim_.calm || !sim_.rng.Chance(sim_.plan.drain_requested)) return;
  const NodeId id = hosts_[sim_.rng.Below(hosts_.size())]->node();
  if (id.value == 0) return;
  sim_.faults.Add(Fault::kDrainRequested);
  const Millis deadline = sim_.rng.Chance(0.5) ? 0 : sim_.Between(500, 5'000);
  AskOnce("drain " + std::to_string(id.value), input::DrainNode{id, "to clean it", deadline});
}

// Also of nodes that are there, which is refused, and of nodes that are just coming back.
void Simulation::AskToForget() {
  if (sim_.calm || !sim_.rng.Chance(sim_.plan.forget_requested)) return;
  const NodeId id = hosts_[sim_.rng.Below(hosts_.size())]->node();
  if (id.value == 0) return;
  sim_.faults.Add(Fault::kForgetRequested);
  AskOnce("forget " + std::to_string(id.value), input::ForgetNode{id, "it is scrap"});
}

void Simulation::AskForMore() {
  if (requests_.empty() || !sim_.rng.Chance(sim_.plan.reopened)) return;
  const Request& request = *requests_[sim_.rng.Below(requests_.size())];
  if (!request.answered || std::holds_alternative<input::SubmitJob>(request.input)) return;
  sim_.faults.Add(Fault::kReopened);
  const ExperimentId experiment{request.id};
  const std::string id = std::to_string(experiment.value);
  switch (sim_.rng.Below(3)) {
    case 0: {
      const Millis time = sim_.rng.Chance(0.5) ? 5'000 : 0;
      return AskOnce("extend " + id, input::ExtendExperiment{experiment, 1, time});
    }
    case 1: {
      const auto failed = static_cast<input::ResumeExperiment::TrialAction>(sim_.rng.Below(2));
      return AskOnce("resume " + id, input::ResumeExperiment{experiment, failed});
    }
    default: {
      const TrialId trial{experiment, static_cast<uint32_t>(sim_.rng.Below(4))};
      const bool from_scratch = sim_.rng.Chance(0.3);
      if (from_scratch) sim_.truth.asked.insert("restart " + ToString(trial));
      return AskOnce("retry a trial of " + id, input::RetryTrial{trial, from_scratch});
    }
  }
}

}  // namespace rt::sim
