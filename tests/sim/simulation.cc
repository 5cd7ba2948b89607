#include "tests/sim/simulation.h"

namespace rt::sim {
namespace {

constexpr uint64_t kSchedulerStream = 0x7363686564756c65, kSearchStream = 0x73656172636865;
constexpr Millis kFaultsLast = 45'000;
constexpr Millis kCloudFaultsLast = 15'000;
// What the circuit breaker holds back (limits::kFreezeMax) is lost by then.
constexpr Millis kCalmSettles = 55'000;
constexpr Millis kLivenessLimit = 600'000;
// With machines that never boot, which are given up after 15 minutes.
constexpr Millis kCloudLivenessLimit = 2'400'000;
// From the last end until the last program and run directory are gone.
constexpr Millis kCleanupLimit = 30'000;

}  // namespace

Simulation::Simulation(uint64_t seed, bool is_cloud)
    : seed_(seed), is_cloud_(is_cloud), sim_(seed, is_cloud), head_(sim_, auditor_),
      cloud_(sim_, head_, auditor_, seed, is_cloud), resizer_(sim_, head_, auditor_, seed) {
  sim_.on_driver_step = [this](JobId job, double step, std::function<bool()> lives) {
    Drive(job, step, std::move(lives));
  };
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

std::string Simulation::DrawExperiment(bool may_ask) {
  if (is_cloud_) return DrawCloudExperiment();
  auto below = [&](uint64_t bound) { return sim_.rng.Below(bound); };
  auto number = [](uint64_t value) { return std::to_string(value); };
  const bool is_quick = below(5) == 0;  // Its trials are over in a moment.
  std::string text = std::string(R"({"experiment":")") + (is_quick ? "quick" : "e") +
                     R"(","command":["train","${lr}"],"metric":"loss",)";
  text += std::string(R"("mode":")") + (below(2) == 0 ? "min" : "max") + "\",";
  const bool is_grid = below(2) == 0;
  text += is_grid ? R"("space":{"lr":{"grid":[1,2,3]}},)" : R"("space":{"lr":{"uniform":[0,1]}},)";
  const char* search[] = {R"("basic")", R"("wayward")", R"({"tpe":{"startup_trials":2}})"};
  text += std::string(R"("search":)") + search[below(is_grid ? 2 : 3)] + ",";
  if (is_quick) text += "\"short_trials\":true,";
  if (below(4) > 0) text += "\"strict_metric\":false,";  // Now and then a row has no loss.
  text += "\"num_samples\":" + number(is_quick ? 4 + below(12) : 1 + below(5)) + ",";
  if (below(3) > 0) {
    text += R"("scheduler":{"asha":{"max_t":)" + number(3 + below(24)) +
            R"(,"grace_period":)" + number(1 + below(2)) + R"(,"reduction_factor":)" +
            number(2 + below(2)) + R"(,"brackets":)" + number(1 + below(2)) + "}},";
  } else if (below(2) == 0) {
    text += R"("stop":{"training_iteration":)" + number(1 + below(20)) +
            (below(2) == 0 ? R"(,"other":2},)" : "},");
  }
  const char* durable_after[] = {"store", "store", "peer", "local"};
  text += std::string(R"("checkpoints":{"durable_after":")") + durable_after[below(4)] + "\"";
  if (below(2) == 0) {
    text += R"(,"num_to_keep":)" + number(1 + below(3));
    if (below(2) == 0) text += R"(,"score_attribute":"loss")";
    if (below(2) == 0) text += R"(,"score_order":"min")";
  }
  text += "},";
  if (below(5) == 0) text += "\"time_budget\":" + number(3 + below(40)) + ",";
  if (below(3) == 0) text += "\"max_concurrent\":" + number(1 + below(3)) + ",";
  if (below(2) == 0)
    text += "\"priority\":" + std::to_string(5 * static_cast<int>(below(4)) - 5) + ",";
  if (below(8) == 0) text += "\"fail_fast\":true,";
  if (below(4) == 0) text += R"("watchdog":{"factor":3,"restarts":)" + number(below(3)) + "},";
  if (below(4) == 0) text += R"("breaker":{"trials":)" + number(below(4)) + "},";
  const char* then[] = {"retry", "fail", "exclude_node"};
  if (below(3) == 0)
    text += std::string(R"("retry":[{"exit_code":1,"log":"x","then":")") + then[below(3)] +
            R"("},{"exit_code":)" + number(1 + below(2)) + R"(,"then":")" + then[below(3)] +
            "\"}],";
  if (may_ask && !is_quick && below(3) == 0) {
    const char* asks[] = {R"("suggests":true)", R"("judges":true)",
                          R"("suggests":true,"judges":true,"search":"own")",
                          R"("judges":true,"chooses":true)"};
    text += std::string(R"("driver":{)") + asks[below(4)] + "},";
  }
  const char* resources[] = {R"({"cpu":1})", R"({"cpu":2})", R"({"cpu":0.5})",
                             R"({"cpu":1,"gpu":1})", R"({"cpu":1,"gpu":2})",
                             R"({"cpu":0.5,"gpu":0.3})", R"({"cpu":0.25,"gpu":0.5})",
                             R"({"cpu":0.5,"gpu":0.4,"gpu_sharing":"spread"})",
                             R"({"cpu":0.5,"ranks":2})",
                             R"({"cpu":1,"gpu":0.5,"ranks":3,"strategy":"SPREAD"})",
                             R"({"bundles":[{"cpu":1},{"gpu":1},{"cpu":0.5}],"ranks":1})",
                             R"({"bundles":[{"cpu":1,"gpu":0.5},{"cpu":0.5,"gpu":1}],)"
                             R"("strategy":"STRICT_PACK"})",
                             R"({"cpu":0.5,"ranks":2,"strategy":"STRICT_SPREAD"})"};
  const uint64_t asked = below(is_quick ? 3 : two_stay_ ? 13 : 12);
  text += std::string("\"resources\":") + resources[asked] + ",";
  text += "\"max_failures\":" + std::to_string(static_cast<int>(below(4)) - 1) + "}";
  return WithOtherSearch(WithOtherScheduler(std::move(text)));
}

// In every sixth run asha is its promotion variant. In every fourth population based training takes
// its place, in every twelfth the median stopping rule, and in every twelfth HyperBand. The share
// follows from the seed and not from the run's generator, so that the other runs keep their course.
std::string Simulation::WithOtherScheduler(std::string text) const {
  const size_t at = text.find("\"asha\"");
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  if (at == std::string::npos || has("\"judges\"")) return text;
  const uint64_t kind = Rng(seed_, kSchedulerStream).Below(4);
  const bool is_third = Rng(seed_, kSchedulerStream + 1).Below(3) == 0;
  const size_t length = text.find('}', at) + 1 - at;
  if (kind == 0 && is_third)
    return text.replace(at, length, R"("hyperband":{"max_t":6,"reduction_factor":2})");
  if (kind == 0) return text.replace(at, 6, "\"asha_promotion\"");
  if (kind == 2 && is_third)
    return text.replace(at, length,
                        R"("median_stopping":{"time_attr":"training_iteration",)"
                        R"("grace_period":2,"min_samples_required":1})");
  // A driver gives trials several ranks, whose positions in data sets are followed along one trial.
  if (kind != 1 || has("\"ranks\"") || has("\"bundles\"") || has("\"driver\"")) return text;
  text.replace(at, length,
               R"("pbt":{"time_attr":"training_iteration","perturbation_interval":2,)"
               R"("hyperparam_mutations":{"lr":{"uniform":[0,1]}}})");
  // A search that learns is refused beside it.
  const size_t search = text.find("\"search\":") + 9;
  return text.replace(search, text.find(",\"", search) - search, "\"basic\"");
}

// In three of four runs another model is in the place of tpe, and in a mixed space. As above, the
// share follows from the seed.
std::string Simulation::WithOtherSearch(std::string text) const {
  const std::string tpe = R"({"tpe":{"startup_trials":2}})", space = R"({"lr":{"uniform":[0,1]}})";
  const std::string models[] = {tpe, R"({"gp":{"startup_trials":2}})",
                                R"({"cmaes":{"startup_trials":2}})", R"("auto")"};
  const size_t at = text.find(tpe);
  const uint64_t drawn = Rng(seed_, kSearchStream).Below(std::size(models));
  if (at == std::string::npos || drawn == 0) return text;
  text.replace(at, tpe.size(), models[drawn]);
  return text.replace(
      text.find(space), space.size(),
      R"({"lr":{"uniform":[0,1]},"n":{"randint":[0,6]},"kind":{"choice":["a","b","c"]}})");
}

// Short work of shapes that only some of the pools can hold.
std::string Simulation::DrawCloudExperiment() {
  auto below = [&](uint64_t bound) { return sim_.rng.Below(bound); };
  const char* resources[] = {
      R"({"cpu":1})",           R"({"cpu":2})",
      R"({"cpu":4})",           R"({"cpu":3})",
      R"({"cpu":1,"gpu":1})",   R"({"cpu":0.5,"gpu":0.5})",
      R"({"cpu":1,"ranks":2})", R"({"cpu":2,"ranks":2,"strategy":"STRICT_SPREAD"})"};
  const char* durable_after[] = {"store", "store", "peer", "local"};
  return R"({"experiment":"e","command":["train","${lr}"],"metric":"loss","mode":"min",)"
         R"("space":{"lr":{"uniform":[0,1]}},"strict_metric":false,"num_samples":)" +
         std::to_string(1 + below(3)) + R"(,"stop":{"training_iteration":)" +
         std::to_string(1 + below(8)) + R"(},"checkpoints":{"durable_after":")" +
         durable_after[below(4)] + R"("},"resources":)" + resources[below(8)] +
         R"(,"max_failures":)" + std::to_string(static_cast<int>(below(3)) - 1) + "}";
}

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
