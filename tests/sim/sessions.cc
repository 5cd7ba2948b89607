#include "tests/sim/sessions.h"

#include "head/core/owner_policy.h"

namespace rt::sim {
namespace {

constexpr uint64_t kSessionsMost = 8;
constexpr const char* kUser = "ann";

std::string ToJson(const ExecutorAsk& ask) {
  auto json = Json::Parse(ask.spec);
  Require(json.ok(), "an executor's spec is JSON");
  if (ask.detached) {
    json->Set("detached", true);
    json->Set("actor", Json::MakeObject({{"name", ask.actor}, {"class", "Counter"}}));
    json->Set("max_restarts", ask.max_restarts);
  }
  return json->Dump();
}

}  // namespace

void SessionHost::Start() {
  if (!is_active_) return;
  OpenLater();
  StopActors();
}

void SessionHost::OpenLater() {
  sim_.At(Between(1'000, 6'000), [this] {
    if (sim_.calm || opened_ >= kSessionsMost) return;
    Open();
    OpenLater();
  });
}

// Half of the drivers are part of an attempt that the head knows as live. It may be over by the
// time that the request arrives.
void SessionHost::Open() {
  auto self = std::make_shared<Driver>();
  self->session = {{}, kUser, "s" + std::to_string(++opened_)};
  std::vector<AttemptId> live;
  if (head_.up()) {
    const State& state = head_.core().world.state;
    for (const OwnerPolicy* policy : OwnerPolicies())
      policy->each(state, [&](const Owner& owner) {
        const Attempt* attempt = FindRuns(state, owner)->live();
        if (attempt != nullptr) live.push_back({owner, attempt->number, attempt->generation});
      });
  }
  if (!live.empty() && rng_.Chance(0.5)) {
    self->opener = live[rng_.Below(live.size())];
    self->session.opener = self->opener.owner;
  }
  self->dies_at = sim_.now + Between(500, 40'000);
  ActLater(self);
}

void SessionHost::ActLater(const Self& self) {
  sim_.At(Between(100, 2'000), [this, self] {
    if (sim_.now >= self->dies_at || (sim_.calm && rng_.Chance(0.1))) return;  // It is dead.
    Act(self);
    ActLater(self);
  });
}

void SessionHost::Act(const Self& self) {
  Say(self, input::RenewSession{kUser, self->session.name, self->session.opener}, {});
  if (!sim_.calm && rng_.Chance(0.3)) Request(self);
  if (rng_.Chance(0.2)) Release(self);
}

void SessionHost::Request(const Self& self) {
  std::string key = "k" + std::to_string(self->keys.size());
  if (!self->keys.empty() && rng_.Chance(0.3)) key = self->keys[rng_.Below(self->keys.size())];
  ExecutorAsk& ask = sim_.truth.executor_requests[{self->session, key}];
  if (ask.count == 0) {
    self->keys.push_back(key);
    ask.count = 1 + rng_.Below(3);
    const std::string name = rng_.Chance(0.4) ? "serve" : "tasks";
    ask.spec = R"({"argv":["python"],"name":")" + name + "\"" +
               (rng_.Chance(0.3) ? "}" : R"(,"resources":{"cpu":1}})");
    ask.detached = rng_.Chance(0.2);
    if (ask.detached) {
      ask.count = 1;
      ask.actor = "actor" + std::to_string(++actors_);
      ask.max_restarts = static_cast<int64_t>(rng_.Below(3)) - 1;
    }
  }
  const input::RequestExecutors request{
      kUser, self->session.name, self->opener, key, static_cast<int64_t>(ask.count), ToJson(ask)};
  Say(self, request, [this, self](const absl::Status& status, const Answer& answer) {
    const bool may_be = status.ok() || absl::IsInvalidArgument(status) ||
                        absl::IsAlreadyExists(status) || absl::IsFailedPrecondition(status);
    if (!may_be) Fail("a good request for executors was refused: " + status.ToString());
    for (ExecutorId id : answer.executors) self->known.push_back(id);
  });
}

void SessionHost::Release(const Self& self) {
  input::ReleaseExecutors release{.owner = kUser,
                                  .session = self->session.name,
                                  .opener = self->session.opener,
                                  .executors = {},
                                  .reason = "enough"};
  if (rng_.Chance(0.1)) {
    release.all = true;
    sim_.truth.session_stops.insert(self->session);
  } else if (!self->known.empty()) {
    release.executors = {self->known[rng_.Below(self->known.size())]};
    sim_.truth.executor_stops.insert(release.executors.front());
  }
  Say(self, release, {});
}

// A person ends the detached actors, which would run for ever.
void SessionHost::StopActors() {
  sim_.At(Between(1'000, 5'000), [this] {
    for (ExecutorId id : auditor_.OpenExecutors()) {
      if (!sim_.calm && !rng_.Chance(0.05)) continue;
      const std::string actor = auditor_.ActorOf(id);
      if (actor.empty()) continue;
      sim_.truth.actor_stops.insert(actor);
      sim_.Call([this, actor](const Sim::Reply&) {
        head_.Post(input::StopExecutor{{}, kUser, actor, "enough"}, {});
      });
    }
    StopActors();
  });
}

void SessionHost::Say(const Self& self, const Input& input, HeadHost::AnswerFn done) {
  sim_.Call([this, self, input, done](const Sim::Reply& reply) {
    head_.Post(input, [done, reply](const absl::Status& status, const Answer& answer) {
      reply([done, status, answer] {
        if (done) done(status, answer);
      });
    });
    // A request renews it as well, if it is granted.
    if (std::holds_alternative<input::RenewSession>(input))
      sim_.truth.session_heard[self->session] = {head_.Now(), head_.core().world.state.epoch};
  });
}

}  // namespace rt::sim
