// What a driver reads of its experiment, and what it answers: the journal's records in order, with
// their rows, and the configurations that are wanted.
#include "common/base/limits.h"
#include "common/base/overloaded.h"
#include "common/base/status.h"
#include "head/core/driver_hooks.h"
#include "head/core/event_rows.h"
#include "head/core/event_table.h"
#include "head/service/operations.h"
#include "head/service/translate.h"
#include "head/view/parts.h"

namespace rt {
namespace {

// An answer must fit into one message (kMessageBytesMax) with room for its frame.
constexpr size_t kEntriesBytesMax = 1u << 20;
constexpr size_t kRecordsMax = 1'024;

// A record that a driver wants to read, with its rows if it has any.
struct Entry {
  Record record;
  std::vector<Row> rows;
};
struct Reading {
  std::vector<Entry> entries;
  uint64_t through = 0;
  bool more = false;
};

// How long its entries become, without rows.
size_t BytesOf(const Event& event) {
  constexpr size_t kEach = 400;
  const auto* answer = std::get_if<event::Answered>(&event);
  if (answer == nullptr) return kEach;
  size_t bytes = kEach * (1 + answer->created.size() + answer->resumed.size());
  for (const AskedClone& asked : answer->asked) bytes += kEach + asked.params.size();
  for (const CreatedTrial& created : answer->created) bytes += created.params.size();
  return bytes;
}

absl::StatusOr<Reading> ReadEntries(Journal& journal, ExperimentId id, uint64_t session,
                                    uint64_t after, uint64_t until) {
  Reading reading{.through = after};
  size_t bytes = 0;
  while (reading.through < until) {
    RT_ASSIGN_OR_RETURN(Batch batch, journal.ReadBatch(reading.through, kRecordsMax));
    if (batch.records.empty()) break;
    size_t next_rows = 0;
    for (Record& record : batch.records) {
      const auto* reports = std::get_if<event::ReportsAccepted>(&record.event);
      RowBatch* rows = reports != nullptr && reports->count > 0 ? &batch.rows.at(next_rows++)
                                                                : nullptr;
      if (record.seq > until) return reading;
      if (bytes > kEntriesBytesMax) {
        reading.more = true;
        return reading;
      }
      reading.through = record.seq;
      if (!MeaningOf(record.event).reader.Is(id, session)) continue;
      Entry entry{std::move(record), {}};
      if (rows != nullptr) entry.rows = std::move(rows->rows);
      for (const Row& row : entry.rows) bytes += 2 * row.metrics.size() + 400;
      bytes += BytesOf(entry.record.event);
      reading.entries.push_back(std::move(entry));
    }
  }
  return reading;
}

Json RowsOf(const Core& core, const Trial& trial, const Entry& entry, const AttemptId& attempt) {
  Json rows = Json::MakeArray();
  for (const Row& row : entry.rows) {
    Json result = FillResult(core, trial, attempt, row);
    result.Erase("config");  // The driver has it from the trial's own entry.
    rows.Append(Json::MakeObject({{"seq", row.seq}, {"result", std::move(result)}}));
  }
  return rows;
}

const char* OutcomeText(AttemptOutcome outcome) {
  const bool failed =
      outcome == AttemptOutcome::kFailed || outcome == AttemptOutcome::kLaunchFailed;
  if (failed) return "FAILED";
  return outcome == AttemptOutcome::kLost ? "LOST" : "ENDED";
}

Json EntryOf(uint64_t seq, const char* kind, uint32_t number) {
  return Json::MakeObject({{"seq", seq}, {"kind", kind}, {"number", number}, {"attempt", 0}});
}

Json CreatedEntry(const World& world, uint64_t seq, TrialId id, const std::string& params) {
  const Experiment& experiment = world.state.experiments.at(id.experiment);
  const ExperimentIndex& index = world.index.experiments.at(id.experiment);
  Json json = EntryOf(seq, "trial", id.number);
  auto parsed = Json::Parse(params);
  json.Set("params", parsed.ok() ? *std::move(parsed) : Json());
  json.Set("name", TrialName(experiment, index, id.number));
  json.Set("results_dir", TrialDirectory(experiment, index, id.number));
  return json;
}

// An answer: how far another session had read, the trials that were created or resumed, and the
// clones whose configurations are asked for.
void AddAnswer(const Core& core, const event::Answered& e, uint64_t seq, uint64_t session,
               Json& list) {
  if (e.session != 0 && e.session != session)
    list.Append(Json::MakeObject(
        {{"seq", seq}, {"kind", "answered"}, {"through", e.observed_through}}));
  for (const CreatedTrial& created : e.created)
    list.Append(CreatedEntry(core.world, seq, {e.experiment, created.number}, created.params));
  for (uint32_t number : e.resumed) list.Append(EntryOf(seq, "resume", number));
  for (const AskedClone& asked : e.asked) {
    Json json = EntryOf(seq, "explore", asked.number);
    auto parsed = Json::Parse(asked.params);
    json.Set("params", parsed.ok() ? *std::move(parsed) : Json());
    json.Set("from", asked.from);
    list.Append(std::move(json));
  }
}

// {"seq", "kind", "number", …}; docs/protocol.md lists the kinds.
Json EntryJson(const Core& core, ExperimentId id, const Entry& entry) {
  const Experiment& experiment = core.world.state.experiments.at(id);
  Json json = Json::MakeObject({{"seq", entry.record.seq}});
  auto add = [&](const char* kind, const Owner& owner, uint32_t attempt) {
    json.Set("kind", kind);
    json.Set("number", owner.number);
    json.Set("attempt", attempt);
  };
  auto add_start = [&](const AttemptId& of) {
    const Trial& trial = experiment.trials.at(of.owner.number);
    for (const Attempt& attempt : trial.runs.attempts)
      if (attempt.number == of.number && attempt.generation == of.generation)
        json.Set("restored", attempt.checkpoint != 0);
    if (!trial.resources.empty()) json.Set("resources", ParsedOrNull(trial.resources));
    if (trial.clones.empty()) return;
    auto params = Json::Parse(trial.ParamsOf(of.number));
    json.Set("params", params.ok() ? *std::move(params) : Json());
  };
  std::visit(Overloaded{
                 [&](const event::TrialCreated& e) {
                   json = CreatedEntry(core.world, entry.record.seq, e.trial, e.params);
                 },
                 [&](const event::TrialEnded& e) {
                   add("end", Owner::Of(e.trial), 0);
                   json.Set("failed", e.end == TrialEnd::kFailed);
                   json.Set("completed", e.end == TrialEnd::kCompleted);
                   json.Set("reason", e.reason);
                 },
                 [&](const event::TrialResumed& e) { add("resume", Owner::Of(e.trial), 0); },
                 [&](const event::TrialReallocated& e) { add("resume", Owner::Of(e.trial), 0); },
                 [&](const event::TrialRetried& e) { add("retry", Owner::Of(e.trial), 0); },
                 [&](const event::ExperimentFinishing&) { json.Set("kind", "decided"); },
                 [&](const event::DriverAnswered& e) {
                   json.Set("kind", "answered");
                   json.Set("through", e.observed_through);
                 },
                 [&](const event::AttemptStarted& e) {
                   add("start", e.attempt.owner, e.attempt.number);
                   json.Set("rank", e.rank);
                   add_start(e.attempt);
                 },
                 [&](const event::AttemptEnded& e) {
                   add("attempt_end", e.attempt.owner, e.attempt.number);
                   json.Set("outcome", OutcomeText(e.outcome));
                   const Trial& trial = experiment.trials.at(e.attempt.owner.number);
                   const std::vector<Attempt>& kept = trial.runs.attempts;
                   const bool has_successor =
                       !kept.empty() && kept.back().number > e.attempt.number;
                   json.Set("goes_on", trial.end == TrialEnd::kNone || has_successor);
                   json.Set("reason", e.reason);
                 },
                 [&](const event::CheckpointCommitted& e) {
                   add("checkpoint", e.attempt.owner, e.attempt.number);
                   json.Set("manifest", e.manifest);
                   json.Set("parts", TextsJson(e.shards));
                   json.Set("iteration", e.iteration);
                 },
                 [&](const event::ReportsAccepted& e) {
                   add("rows", e.attempt.owner, e.attempt.number);
                   add_start(e.attempt);
                   const Trial& trial = experiment.trials.at(e.attempt.owner.number);
                   json.Set("rows", RowsOf(core, trial, entry, e.attempt));
                 },
                 [](const event::Answered&) {},  // AddAnswer writes its entries.
                 []<class E>(const E&) { static_assert(!event_rows::kIsRead<E>, "no entry"); },
             },
             entry.record.event);
  return json;
}

}  // namespace

void Operations::AttachDriver(ExperimentId id, const std::string& driver, JsonDone done) {
  if (auto size = CheckSize("driver", driver.size(), limits::kNameBytesMax); !size.ok())
    return done(size);
  auto attached = [this, id, done = std::move(done)](absl::Status status, const Answer& answer) {
    if (!status.ok()) return done(status);
    auto view = [id, answer](const Core& core, const HeadFacts&) -> absl::StatusOr<Json> {
      return Json::MakeObject({{"session", answer.session},
                               {"answered_seq", answer.answered_seq},
                               {"created_seq", core.world.state.experiments.at(id).created_seq}});
    };
    Ask(view, done);
  };
  loop_.Post(input::AttachDriver{id, driver}, std::move(attached));
}

void Operations::ReadQuestions(ExperimentId id, DriverView seen, Millis hold, JsonDone done) {
  // Up to here there was nothing for this driver. Known to the core thread only.
  auto quiet = std::make_shared<uint64_t>(seen.after);
  auto check = [id, seen, quiet](const Core& core, const HeadFacts&,
                                 bool last) -> std::optional<absl::StatusOr<Json>> {
    auto found = core.world.state.experiments.find(id);
    if (found == core.world.state.experiments.end()) return NotFound("no such experiment");
    if (found->second.drivers.size() != seen.session)
      return absl::FailedPreconditionError("another driver answers this experiment now");
    const bool news = core.world.index.experiments.at(id).driver_record_seq > seen.after;
    if (!news) *quiet = std::max(*quiet, core.world.state.seq);
    const bool asks = AskedNumbers(core.world, id) != seen.asked;
    if (!news && !asks && !last && !found->second.finished) return std::nullopt;
    return Json::MakeObject(
        {{"from", *quiet}, {"until", core.world.state.seq}, {"news", news}});
  };
  auto answer = [this, id, seen, done](absl::StatusOr<Json> ready) {
    if (!ready.ok()) return done(ready.status());
    // Only records that were read count as seen: what this answer does not hold is read next time.
    if (!ready->GetBool("news")) return ShowQuestions(id, {}, seen.after, false, done);
    const auto from = static_cast<uint64_t>(ready->GetInt("from"));
    const auto until = static_cast<uint64_t>(ready->GetInt("until"));
    io_([this, id, session = seen.session, from, until, done] {
      absl::StatusOr<Reading> reading = ReadEntries(journal_, id, session, from, until);
      if (!reading.ok()) return done(reading.status());
      auto shared = std::make_shared<Reading>(*std::move(reading));
      auto show = [id, session, shared](const Core& core) {
        Json list = Json::MakeArray();
        for (const Entry& entry : shared->entries) {
          const auto* answered = std::get_if<event::Answered>(&entry.record.event);
          if (answered != nullptr) AddAnswer(core, *answered, entry.record.seq, session, list);
          else list.Append(EntryJson(core, id, entry));
        }
        return list;
      };
      ShowQuestions(id, show, shared->through, shared->more, done);
    });
  };
  auto listens = [this, check, hold, answer = std::move(answer), done](absl::Status status,
                                                                       const Answer&) {
    if (!status.ok()) return done(status);
    waits_.Add(WaitRole::kDriver, check, hold, answer);
  };
  loop_.Post(input::DriverListens{id, seen.session}, std::move(listens));
}

void Operations::ShowQuestions(ExperimentId id, std::function<Json(const Core&)> entries,
                               uint64_t through, bool more, JsonDone done) {
  auto view = [id, entries = std::move(entries), through, more](
                  const Core& core, const HeadFacts&) -> absl::StatusOr<Json> {
    const Experiment& experiment = core.world.state.experiments.at(id);
    return Json::MakeObject({{"entries", entries ? entries(core) : Json::MakeArray()},
                             {"through", through},
                             {"more", more},
                             {"answered_seq", experiment.answered_seq},
                             {"asked", AskedView(core, id)},
                             {"ended", experiment.finished}});
  };
  Ask(std::move(view), std::move(done));
}

void Operations::TakeDriverCall(const input::DriverListens& call, JsonDone done) {
  auto taken = [this, id = call.experiment, done = std::move(done)](absl::Status status,
                                                                    const Answer&) {
    if (!status.ok()) return done(status);
    auto view = [id](const Core& core, const HeadFacts&) -> absl::StatusOr<Json> {
      return Json::MakeObject({{"ended", core.world.state.experiments.at(id).finished}});
    };
    Ask(view, done);
  };
  loop_.Post(call, std::move(taken));
}

void Operations::AnswerQuestions(input::AnswerQuestions answer, JsonDone done) {
  for (const auto& suggestion : answer.suggestions)
    if (auto size = CheckSize("params", suggestion.params.size(), limits::kParamsBytesMax);
        !size.ok())
      return done(size);
  for (const auto& one : answer.explored)
    if (auto size = CheckSize("params", one.params.size(), limits::kParamsBytesMax); !size.ok())
      return done(size);
  Post(std::move(answer), std::move(done));
}

}  // namespace rt
