// What people and drivers can ask, once: the services and the driver dispatcher both call this.
// Each operation checks sizes, posts to the loop or reads from it, and answers through `done` (on a
// thread of the loop's or the io pool's) when what it saw is durable. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "head/journal/journal.h"
#include "head/service/settings.h"
#include "head/service/trial_rows.h"
#include "head/service/waits.h"

namespace rt {

class Operations {
 public:
  Operations(HeadLoop& loop, Journal& journal, Io io, const Settings& settings, Waits& waits,
             Waits& session_waits)
      : loop_(loop), journal_(journal), io_(std::move(io)), settings_(settings), waits_(waits),
        session_waits_(session_waits) {}

  struct NewExperiment {
    std::string owner;
    JobId job;
    std::string spec;  // JSON.
    std::string key;
  };
  struct Span {  // Of a long poll.
    std::string seen;
    Millis hold = 0;
    bool until_end = false;  // Nothing else is news.
    WaitRole role = WaitRole::kPerson;
  };

  using View = std::function<absl::StatusOr<Json>(const Core& core, const HeadFacts& facts)>;
  void Ask(View view, JsonDone done);
  // ExperimentPageView and its like.
  using PageView = Json (*)(const Core& core, const HeadFacts& facts, const ListSpan& span);
  void AskPage(const ListSpan& span, PageView view, JsonDone done);

  // Ids of 0 mean the newest.
  void GetNode(const std::string& name_or_id, JsonDone done);
  // {"experiment", "results_dir", "attached"}. A key that is known is answered before the spec is
  // validated: a driver that is run again may find a release that would refuse it.
  void CreateExperiment(NewExperiment request, JsonDone done);
  // The same of what was created under the request's key; null: nothing was.
  void FindExperiment(NewExperiment request, JsonDone done);
  void GetExperiment(ExperimentId id, JsonDone done);
  void WaitExperiment(ExperimentId id, Span span, JsonDone done);
  void StopExperiment(ExperimentId id, const std::string& reason, JsonDone done);
  // 0: all. `from`: the first one wanted. The answer is cut near 2 MiB, with a "next".
  void ListTrials(ExperimentId id, std::optional<TrialId> from, JsonDone done);
  // {"session", "answered_seq", "created_seq"}: the caller is the experiment's driver now.
  void AttachDriver(ExperimentId id, const std::string& driver, JsonDone done);
  struct DriverView {  // What a driver has seen.
    uint64_t session = 0;
    uint64_t after = 0;  // A record.
    std::vector<uint32_t> asked;
  };
  // Held until there is something that the driver has not seen: {"entries", "through", "more",
  // "answered_seq", "asked", "ended"}.
  void ReadQuestions(ExperimentId id, DriverView seen, Millis hold, JsonDone done);
  void TakeDriverCall(const input::DriverListens& call, JsonDone done);  // {"ended"}
  void AnswerQuestions(input::AnswerQuestions answer, JsonDone done);
  void GetTrial(TrialId id, JsonDone done);
  void StopTrial(TrialId id, const std::string& reason, JsonDone done);
  // Inputs that change something and answer nothing: pausing, resuming, extending, retrying.
  void Change(Input input, JsonDone done) { Post(std::move(input), std::move(done)); }
  void ReadRows(const RowsAsk& ask, JsonDone done);
  void SubmitJob(const std::string& owner, const std::string& spec, const std::string& key,
                 JsonDone done);  // {"job"}
  void GetJob(JobId id, JsonDone done);
  void WaitJob(JobId id, Span span, JsonDone done);
  void StopJob(JobId id, const std::string& reason, JsonDone done);
  // {"executors": [id]}; executor_calls.cc.
  void RequestExecutors(input::RequestExecutors request, JsonDone done);
  // {"seen", "executors": [as ExecutorItem]}, once something differs from `seen`.
  // `yields`: also when another owner waits for a node: the driver may give an executor back.
  struct SessionWait {
    std::string seen;
    Millis hold = 0;
    bool yields = false;
    bool only_changes = false;
  };
  void WaitExecutors(const SessionKey& session, SessionWait wait, JsonDone done);

 private:
  void Post(Input input, JsonDone done);
  void CreateNew(NewExperiment request, JsonDone done);  // May block.
  void ShowQuestions(ExperimentId id, std::function<Json(const Core&)> entries, uint64_t through,
                     bool more, JsonDone done);

  HeadLoop& loop_;
  Journal& journal_;
  Io io_;
  const Settings& settings_;
  Waits& waits_;
  Waits& session_waits_;
};

// {"version": text} of an experiment's progress: its state, its trials by state, its end.
std::string ProgressVersion(const Core& core, const Experiment& experiment);

}  // namespace rt
