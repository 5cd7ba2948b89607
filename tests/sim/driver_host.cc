#include "tests/sim/driver_host.h"

#include "head/core/driver_hooks.h"

namespace rt::sim {

void DriverHost::Start() {
  newest_ = std::make_shared<Life>();
  newest_->name = "driver-" + std::to_string(++lives_);
  Attach(newest_);
}

void DriverHost::Kill() {
  sim_.faults.Add(Fault::kDriverKilled);
  newest_->lives = sim_.rng.Chance(0.3);  // A zombie: it goes on beside its successor.
  sim_.At(sim_.Between(50, 3'000), [this] { Start(); });
}

// A predecessor's late request took its place: somebody runs the newest one again.
void DriverHost::Refused(const Self& self) {
  if (!self->lives) return;
  self->lives = false;
  if (self == newest_) sim_.At(sim_.Between(50, 1'000), [this] { Start(); });
}

void DriverHost::Attach(const Self& self) {
  if (!self->lives || self->session != 0) return;
  sim_.Call([this, self](const Sim::Reply& reply) {
    const input::AttachDriver attach{id_, self->name};
    head_.Post(attach, [this, self, reply](const absl::Status& status, const rt::Answer& answer) {
      if (absl::IsFailedPrecondition(status)) return Refused(self);
      if (!status.ok()) Fail("a driver was refused: " + status.ToString());
      reply([this, self, answer] {
        if (self->session != 0) return;
        self->session = answer.session;
        self->answered = answer.answered_seq;
        Poll(self);
      });
    });
  });
  sim_.At(700, [this, self] { Attach(self); });
}

void DriverHost::Poll(const Self& self) {
  if (!self->lives) return;
  sim_.At(sim_.Between(10, 150), [this, self] { Poll(self); });
  if (self->waits_for_answer) return;
  sim_.Call([this, self](const Sim::Reply& reply) {
    const input::DriverListens listens{id_, self->session};
    head_.Post(listens, [this, self, reply](const absl::Status& status, const rt::Answer&) {
      if (absl::IsFailedPrecondition(status)) return Refused(self);
      if (!status.ok()) return;
      reply([this, self, news = head_.LogAfter(self->seen.state.seq)] { Take(self, news); });
    });
  });
}

void DriverHost::Take(const Self& self, const std::vector<Record>& news) {
  if (!self->lives || self->waits_for_answer) return;
  for (const Record& record : news)
    if (record.seq == self->seen.state.seq + 1) Apply(self->seen, record);
  input::AnswerQuestions answer{.experiment = id_, .session = self->session};
  answer.from = self->answered;
  answer.through = std::max(self->seen.state.seq, self->answered);
  Decide(self, answer);
  self->waits_for_answer = true;
  Answer(self, ++self->answers, answer);
}

void DriverHost::Decide(const Self& self, input::AnswerQuestions& answer) {
  if (!self->seen.state.experiments.contains(id_)) return;
  const Experiment& experiment = self->seen.state.experiments.at(id_);
  for (uint32_t number : AskedNumbers(self->seen, id_)) {
    if (sim_.rng.Chance(0.3)) break;
    if (number > 0 && sim_.rng.Chance(0.05)) {
      answer.search_finished = true;
      sim_.truth.finished_searches.insert(id_);
      break;
    }
    const std::string params = "{\"lr\":" + std::to_string(sim_.rng.Below(1'000)) + "}";
    const char* resources[] = {"", "", "", R"({"cpu":2})", R"({"cpu":0.5,"gpu":0.5})",
                               R"({"cpu":0.5,"ranks":2})"};
    const std::string asks = resources[sim_.rng.Below(6)];
    answer.suggestions.push_back({.number = number, .params = params, .resources = asks});
    sim_.truth.suggested[{id_, number}].insert(params + asks);
  }
  for (const Trial& trial : experiment.trials) {
    if (!HasOpenClone(trial) || sim_.rng.Chance(0.1)) continue;  // It may forget one.
    const std::string params = "{\"lr\":0." + std::to_string(100 + sim_.rng.Below(900)) + "}";
    const std::string failure = sim_.rng.Chance(0.2) ? "it raised" : "";
    answer.explored.push_back({trial.id.number, params, failure});
    if (failure.empty()) sim_.truth.explored.insert({trial.id, params});
  }
  const bool allocates = self->seen.index.experiments.at(id_).spec.driver.allocates;
  for (uint32_t number : self->seen.index.experiments.at(id_).live) {
    if (!allocates || !sim_.rng.Chance(0.1)) continue;
    const char* resources[] = {R"({"cpu":1})", R"({"cpu":2})", R"({"cpu":0.5})",
                               R"({"cpu":0.5,"gpu":1})"};
    answer.allocated.push_back({number, resources[sim_.rng.Below(4)]});
    sim_.truth.allocated.insert({TrialId{id_, number}, answer.allocated.back().resources});
  }
  const bool schedules = self->seen.index.experiments.at(id_).spec.driver.schedules;
  for (uint32_t number : self->seen.index.experiments.at(id_).live) {
    if (!schedules || experiment.trials[number].reports == 0 || !sim_.rng.Chance(0.02)) continue;
    answer.stops.push_back({number, sim_.rng.Chance(0.5), "advice"});
    sim_.truth.advised_stops.insert(TrialId{id_, number});
  }
  for (uint32_t number = 0; schedules && number < experiment.trials.size(); ++number) {
    const Trial& trial = experiment.trials[number];
    const bool is_paused = trial.pause_cause == PauseCause::kScheduler;
    if (trial.end != TrialEnd::kNone || !sim_.rng.Chance(is_paused ? 0.5 : 0.01)) continue;
    (is_paused ? answer.resumes : answer.pauses).push_back(number);
    sim_.truth.asked.insert((is_paused ? "resume " : "pause ") + ToString(trial.id));
  }
  if (schedules && sim_.rng.Chance(0.001)) {
    answer.stop_all = true;
    sim_.truth.advised_ends.insert(id_);
  }
}

void DriverHost::Answer(const Self& self, uint64_t number, const input::AnswerQuestions& answer) {
  if (!self->lives || !self->waits_for_answer || self->answers != number) return;
  sim_.Call([this, self, number, answer](const Sim::Reply& reply) {
    auto heard = [this, self, number, reply, through = answer.through](const absl::Status& status,
                                                                       const rt::Answer&) {
      const bool is_open = self->waits_for_answer && self->answers == number;
      if (absl::IsFailedPrecondition(status)) {
        if (is_open) Refused(self);
        return;
      }
      if (absl::IsUnavailable(status)) return;  // The head before, which has read less.
      if (!status.ok()) Fail("a good answer was refused: " + status.ToString());
      reply([self, number, through] {
        if (!self->waits_for_answer || self->answers != number) return;
        self->answered = through;
        self->waits_for_answer = false;
      });
    };
    head_.Post(answer, std::move(heard));
  });
  sim_.At(700, [this, self, number, answer] { Answer(self, number, answer); });
}

}  // namespace rt::sim
