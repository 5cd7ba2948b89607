// Search models: what the lane is asked, and what becomes of its answers.
#include "common/algorithms/registry.h"
#include "head/core/lane.h"
#include "head/view/view.h"
#include "tests/unit/core_story.h"

namespace rt {
namespace {

constexpr char kSearch[] =
    R"(,"space":{"x":{"uniform":[0,1]},"y":{"loguniform":[0.001,1]}},"metric":"loss","mode":"min",)"
    R"("search":{"tpe":{"startup_trials":3}},"num_samples":12)";

// A story with a lane.
struct LaneStory : Story {
  LaneDesk desk;
  std::map<ExperimentId, LaneModel> models;

  std::vector<LaneJob> Jobs() { return desk.Ask(core, now); }
  input::LaneAnswered Think(const LaneJob& job, const GiveUp& give_up = {}) {
    if (job.spec.has_value()) {
      models.erase(job.experiment);
      models.try_emplace(job.experiment, *job.spec, job.seed);
    }
    return models.at(job.experiment).Answer(job, give_up);
  }
  // Asks and answers until nothing is wanted; returns how many jobs there were.
  size_t Settle() {
    size_t count = 0;
    for (std::vector<LaneJob> jobs = Jobs(); !jobs.empty(); jobs = Jobs())
      for (const LaneJob& job : jobs) {
        ++count;
        const input::LaneAnswered answered = Think(job);
        desk.Take(answered);
        Do(answered);
      }
    SyncTwice();
    return count;
  }
  // The trial reports its loss and ends.
  void Finish(uint32_t number, double loss) {
    Report(FenceOf(number), 1, "{\"loss\":" + Json(loss).Dump() + "}");
    Exit(FenceOf(number), 0, 1);
  }
  double BestValue() {
    double best = HUGE_VAL;
    for (const Trial& trial : core.world.state.experiments.at({1}).trials)
      if (trial.has_best) best = std::min(best, trial.best);
    return best;
  }
  size_t trials() { return core.world.state.experiments.at({1}).trials.size(); }
};

std::vector<std::string> ParamsOf(const World& world) {
  std::vector<std::string> params;
  for (const Trial& trial : world.state.experiments.at({1}).trials) params.push_back(trial.params);
  return params;
}

// A whole search with one trial in flight; `restart_at`: there the head and its lane start anew.
std::vector<std::string> OneAtATime(uint32_t restart_at) {
  LaneStory story;
  story.Create(std::string(kSearch) + R"(,"max_concurrent":1)");
  for (uint32_t number = 0; number < 12; ++number) {
    if (number == restart_at) {
      story.Jobs();  // It is asked, and its answer is lost with the head.
      story.core.soft = {};
      story.desk = {};
      story.models.clear();
      story.Do(input::StartHead{"c", "test", "1"});
      story.SyncTwice();
    }
    CHECK(story.Settle() == 1);
    REQUIRE(story.trials() == number + 1);
    const Json params = *Json::Parse(story.TrialOf(number).params);
    story.Finish(number, std::abs(params.GetDouble("x") - 0.3) + params.GetDouble("y"));
  }
  CHECK(story.core.world.state.experiments.at({1}).finishing);
  return ParamsOf(story.core.world);
}

}  // namespace

TEST_CASE("lane: a model is asked for all free capacity and for one trial ahead") {
  LaneStory story;
  story.Create(kSearch);
  CHECK(story.trials() == 0);  // Step proposes nothing itself.
  const std::vector<LaneJob> jobs = story.Jobs();
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].count == 3);  // Two cpus are free.
  CHECK(jobs[0].from == 0);
  CHECK(story.Jobs().empty());  // One job is under way.
  const input::LaneAnswered answered = story.Think(jobs[0]);
  story.desk.Take(answered);
  story.Do(answered);
  REQUIRE(story.trials() == 3);
  CHECK(story.Jobs().empty());  // One trial waits for capacity.
  story.SyncTwice();
  story.Finish(0, 1);
  const std::vector<LaneJob> more = story.Jobs();
  REQUIRE(more.size() == 1);
  CHECK(more[0].count == 1);
  CHECK(more[0].params_from == 0);
  CHECK(!more[0].spec.has_value());  // The lane has it.
  const Trial& ended = story.core.world.state.experiments.at(jobs[0].experiment).trials[0];
  CHECK(more[0].results[0] == TrialResult{TrialResult::Kind::kValue, 1, ended.ended_at});
  CHECK(more[0].results[1] == TrialResult{});
  CHECK(story.answers.answers() == 1);
}

TEST_CASE("lane: an answer for another head, for taken numbers or in a pause is dropped") {
  LaneStory story;
  const ExperimentId id = story.Create(kSearch);
  const input::LaneAnswered answered = story.Think(story.Jobs().at(0));
  input::LaneAnswered old = answered;
  --old.epoch;
  CHECK(story.Do(old).records.empty());
  input::LaneAnswered ahead = answered;
  ahead.observed_through = story.core.world.state.seq + 1;
  CHECK(story.Do(ahead).records.empty());
  story.Do(input::PauseExperiment{id, "for now"});
  CHECK(story.Do(answered).records.empty());
  story.Do(input::ResumeExperiment{id});
  story.Do(answered);
  CHECK(story.trials() == 3);
  CHECK(story.Do(answered).records.empty());
  CHECK(story.trials() == 3);
}

TEST_CASE("lane: with one trial in flight a search is the same to the bit across a restart") {
  const std::vector<std::string> undisturbed = OneAtATime(UINT32_MAX);
  CHECK(std::set<std::string>(undisturbed.begin(), undisturbed.end()).size() == 12);
  CHECK(OneAtATime(2) == undisturbed);
  CHECK(OneAtATime(7) == undisturbed);
}

TEST_CASE("lane: what a model expects is shown, is not journalled, and is known again when asked") {
  LaneStory story;
  const ExperimentId id = story.Create(
      R"(,"space":{"x":{"uniform":[0,1]}},"metric":"loss","mode":"min","max_concurrent":1,)"
      R"("search":{"gp":{"startup_trials":3}},"num_samples":12)");
  const auto shown = [&] {
    return *ExperimentView(story.core, {.now = story.now}, id)->Find("search_model");
  };
  const auto finish = [&](uint32_t number) {
    story.Settle();
    const Json params = *Json::Parse(story.TrialOf(number).params);
    story.Finish(number, 2 + std::abs(params.GetDouble("x") - 0.3));
  };
  for (uint32_t number = 0; number < 5; ++number) finish(number);
  story.Settle();
  const Json belief = shown();
  REQUIRE(belief.is_object());
  CHECK(belief.Find("next")->GetString("trial_id") == "1/5");
  CHECK(belief.Find("best")->GetDouble("value") == Approx(story.BestValue()).epsilon(0.1));
  story.core.soft = {};
  story.desk = {};
  story.models.clear();
  story.Do(input::StartHead{"c", "test", "1"});
  story.SyncTwice();
  CHECK(shown().is_null());
  finish(5);
  story.Settle();
  CHECK(shown().Find("next")->GetString("trial_id") == "1/6");
}

TEST_CASE("lane: a model that is too slow leaves its number to Sobol, and the answer says so") {
  LaneStory story;
  const ExperimentId id = story.Create(kSearch);
  const LaneJob job = story.Jobs().at(0);
  const input::LaneAnswered answered = story.Think(job, [] { return true; });
  REQUIRE(answered.points.size() == 1);  // The others are asked for anew.
  CHECK(answered.points[0].fallback == "no answer within 10 s");
  story.desk.Take(answered);
  story.Do(answered);
  const Experiment& experiment = story.core.world.state.experiments.at(id);
  CHECK(experiment.fallback_trials == 1);
  const ExperimentSpec& spec = story.core.world.index.experiments.at(id).spec;
  CHECK(experiment.trials[0].params == SearcherOf(spec).Propose(spec, 9, 0)->Dump());
  const auto view = ExperimentView(story.core, {.now = story.now}, id);
  REQUIRE(view.ok());
  CHECK(view->Find("warnings")->array().at(0).AsString() ==
        "search: tpe had no answer for 1 of 1 trials, whose configurations follow from the space "
        "and the seed alone; the last time: no answer within 10 s");
}

TEST_CASE("lane: the head continues without a lane that does not come back") {
  LaneStory story;
  const ExperimentId id = story.Create(kSearch);
  const LaneJob lost = story.Jobs().at(0);
  CHECK(story.desk.Overdue(story.core, story.now).empty());
  story.now += limits::kLaneOverdueAfter * 2;  // The head stood still: that is no waiting.
  CHECK(story.desk.Overdue(story.core, story.now).empty());
  std::vector<input::LaneAnswered> answers;
  for (int i = 0; answers.empty() && i < 1'000; ++i) {
    story.now += limits::kTickInterval;
    answers = story.desk.Overdue(story.core, story.now);
  }
  REQUIRE(answers.size() == 1);
  story.Do(answers[0]);
  CHECK(story.trials() == answers[0].points.size());
  CHECK(story.core.world.state.experiments.at(id).fallback_reason ==
        "the compute lane did not answer within 30 s");
  const input::LaneAnswered late = story.Think(lost);
  story.desk.Take(late);
  CHECK(story.Do(late).records.empty());
  story.SyncTwice();
  story.Finish(0, 1);
  CHECK(story.Settle() == 1);  // The lane is back.
}

TEST_CASE("lane: a proposal that was dropped leaves no trace in the model") {
  LaneStory story, other;
  for (LaneStory* each : {&story, &other}) {
    each->Create(std::string(kSearch) + R"(,"max_concurrent":1)");
    for (uint32_t number = 0; number < 6; ++number) {
      if (number == 5 && each == &story) {
        const input::LaneAnswered dropped = each->Think(each->Jobs().at(0));
        each->desk.Take(dropped);
      }
      each->Settle();
      each->Finish(number, 6 - number);
    }
  }
  CHECK(ParamsOf(story.core.world) == ParamsOf(other.core.world));
}

TEST_CASE("lane: a failed trial counts as bad, one whose machines were lost says nothing") {
  LaneStory story;
  const ExperimentId id = story.Create(kSearch);
  story.Settle();
  story.Exit(story.FenceOf(0), 1, 0);
  REQUIRE(story.StateOf(0) == "FAILED");
  const Experiment& experiment = story.core.world.state.experiments.at(id);
  CHECK(ResultsOf(experiment, {})[0].kind == TrialResult::Kind::kBad);
  story.Report(story.FenceOf(1), 1, R"({"loss":2})");
  story.Do(input::StopTrial{{id, 1}, "enough"});
  story.Exit(story.FenceOf(1), 143, 1);
  const int64_t ended_at = experiment.trials[1].ended_at;
  CHECK(ended_at > 0);
  CHECK(ResultsOf(experiment, {})[1] == TrialResult{TrialResult::Kind::kValue, 2, ended_at});
  Experiment lost = experiment;
  lost.trials[0].runs.attempts.back().outcome = AttemptOutcome::kLost;
  CHECK(ResultsOf(lost, {})[0].kind == TrialResult::Kind::kUnknown);
}

TEST_CASE("lane: a model that reads rungs is told them, of open trials as well") {
  LaneStory story;
  const ExperimentId id = story.Create(
      R"(,"space":{"x":{"uniform":[0,1]}},"metric":"loss","mode":"min","search":"bohb",)"
      R"("num_samples":3,"scheduler":{"asha":{"max_t":9,"reduction_factor":3}})");
  story.Settle();
  const auto results = [&] {
    const World& world = story.core.world;
    return ResultsOf(world.state.experiments.at(id), world.index.experiments.at(id));
  };
  story.Report(story.FenceOf(0), 1, R"({"loss":2})");
  CHECK(results()[0].kind == TrialResult::Kind::kOpen);
  CHECK(results()[0].rungs == std::vector<RungResult>{{1, 2}});
  story.Report(story.FenceOf(0), 2, R"({"loss":1})");
  story.Report(story.FenceOf(0), 3, R"({"loss":1.5})");
  story.Exit(story.FenceOf(0), 0, 3);
  REQUIRE(story.StateOf(0) == "COMPLETED");
  CHECK(results()[0].rungs == std::vector<RungResult>{{1, 2}, {3, 1.5}, {kTrainedToTheEnd, 1}});
  story.Report(story.FenceOf(1), 1, R"({"loss":3})");  // Worse than the first: it is stopped.
  story.Exit(story.FenceOf(1), 0, 1);
  REQUIRE(story.StateOf(1) == "STOPPED");
  CHECK(results()[1].rungs == std::vector<RungResult>{{1, 3}});
}

TEST_CASE(
    "lane: the check of answers keeps what the lane may have been asked once, not each time") {
  Story story;
  story.Create(
      R"(,"space":{"x":{"uniform":[0,1]}},"metric":"m","mode":"max","num_samples":2,"scheduler":)"
      R"({"pb2":{"perturbation_interval":100,"hyperparam_bounds":{"x":[0,1]}}})");
  story.SyncTwice();
  for (uint64_t seq = 1; seq <= 5; ++seq) story.Report(story.FenceOf(0), seq, R"({"m":1})");
  CHECK(story.answers.QuestionsKept({1}) == 1);
  for (uint32_t number : {0, 1}) story.Exit(story.FenceOf(number), 0, number == 0 ? 5 : 0);
  CHECK(story.answers.QuestionsKept({1}) == 0);
}

}  // namespace rt
