// What Status leaves out, and why things wait in lists of many.
#include "head/core/draft.h"
#include "tests/unit/core_story.h"

using namespace rt;

namespace {

const input::SubmitJob kLargeJob{
    "me", R"({"name":"j","argv":["x"],"resources":{"cpu":9}})", ""};

// Not checked step by step as Story::Do does: these are many.
void Submit(Story& story, uint64_t count, bool stopped) {
  for (uint64_t i = 0; i < count; ++i) {
    const Outcome made = Step(story.core, kLargeJob, story.now);
    REQUIRE(made.verdict.ok());
    if (stopped) Step(story.core, input::StopJob{made.answer.job, "enough"}, story.now);
  }
}

std::vector<int64_t> IdsOf(const Json& list) {
  std::vector<int64_t> ids;
  for (const Json& item : list.array()) ids.push_back(item.GetInt("id"));
  return ids;
}

std::string ReasonOf(const Json& item) {
  const Json* reason = item.Find("reason");
  return reason == nullptr || reason->is_null() ? "" : reason->AsString();
}

}  // namespace

TEST_CASE("status: of what is over the newest is listed, of what is open the oldest") {
  Story story;
  Submit(story, limits::kStatusOverMax + 50, true);
  Submit(story, limits::kStatusOpenMax + 7, false);
  const HeadFacts facts{.now = story.now};
  Json status = StatusView(story.core, facts);
  const std::vector<int64_t> ids = IdsOf(status["jobs"]);
  REQUIRE(ids.size() == limits::kStatusOverMax + limits::kStatusOpenMax);
  CHECK(ids.front() == 51);
  CHECK(ids[limits::kStatusOverMax] == limits::kStatusOverMax + 51);
  CHECK(ids.back() == limits::kStatusOverMax + 50 + limits::kStatusOpenMax);
  CHECK(std::is_sorted(ids.begin(), ids.end()));
  CHECK(status.GetInt("jobs_left_out") == 50 + 7);
  CHECK(status.GetInt("experiments_left_out") == 0);
  status = StatusView(story.core, facts, /*whole=*/true);
  CHECK(status["jobs"] == JobListView(story.core, facts)["items"]);
  CHECK(status["jobs"].array().size() == limits::kStatusOverMax + limits::kStatusOpenMax + 57);
  CHECK(status.GetInt("jobs_left_out") == 0);
}

TEST_CASE("status: experiments that are over are left out beyond the newest") {
  Story story;
  for (uint64_t i = 0; i < limits::kStatusOverMax + 3; ++i) {
    const std::string key = std::to_string(i);
    const Outcome made = Step(
        story.core,
        input::CreateExperiment{
            .spec = R"({"experiment":"e","command":["x"],"resources":{"cpu":9}})",
            .request_key = key, .results_root = "/" + key}, story.now);
    REQUIRE(made.verdict.ok());
    const ExperimentId id = made.answer.experiment;
    if (i == 1) continue;  // It stays open.
    Step(story.core, input::StopExperiment{id, "enough"}, story.now);
    Step(story.core, input::SinksFlushed{story.core.world.state.seq}, story.now);
  }
  Json status = StatusView(story.core, {.now = story.now});
  const std::vector<int64_t> ids = IdsOf(status["experiments"]);
  REQUIRE(ids.size() == limits::kStatusOverMax + 1);
  CHECK(ids[0] == 2);
  CHECK(ids[1] == 4);
  CHECK(status.GetInt("experiments_left_out") == 2);
}

TEST_CASE("lists: each item that waits has the reason that it has when it is asked for alone") {
  Story story;
  story.Create(R"(,"num_samples":6,"max_concurrent":5,"resources":{"cpu":2})");
  story.Create(R"(,"num_samples":4,"resources":{"cpu":2},"priority":1)");
  story.Create(R"(,"num_samples":3,"resources":{"cpu":8})");
  story.Create(R"(,"num_samples":3)");
  for (int i = 0; i < 3; ++i) REQUIRE(story.Do(kLargeJob).verdict.ok());
  REQUIRE(story.Do(input::PauseTrial{{{4}, 1}, PauseCause::kUser, "by hand"}).verdict.ok());
  story.SyncTwice();
  const HeadFacts facts{.now = story.now};
  const auto trials = TrialListView(story.core, facts, {});
  REQUIRE(trials.ok());
  std::set<std::string> reasons;
  for (const Json& item : trials->Find("items")->array()) {
    INFO(item.Dump());
    const Owner owner = Owner::Of(*ParseTrialId(item.GetString("id")));
    CHECK(ReasonOf(item) == WhyWaiting(story.core, owner, story.now).reason);
    reasons.insert(ReasonOf(item));
  }
  CHECK(reasons.size() >= 5);
  const Json jobs = JobListView(story.core, facts);
  for (const Json& item : jobs.Find("items")->array()) {
    const Owner owner = Owner::Of(JobId{static_cast<uint64_t>(item.GetInt("id"))});
    CHECK(ReasonOf(item) == WhyWaiting(story.core, owner, story.now).reason);
    CHECK(!ReasonOf(item).empty());
  }
}
