// What Status leaves out, and why things wait in lists of many.
#include "head/core/draft.h"
#include "head/view/why.h"
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
  CHECK(IdsOf(status["jobs"]).front() == 1);
  CHECK(status["jobs"].array().size() == limits::kStatusOverMax + 50 + limits::kStatusOpenMax);
  CHECK(status.GetInt("jobs_left_out") == 7);
}

TEST_CASE("status: also the whole one fits in a message, and says what it leaves out") {
  Story story;
  Submit(story, limits::kStatusWholeMax + 5, true);
  Submit(story, limits::kStatusOpenMax + 3, false);
  Json status = StatusView(story.core, {.now = story.now}, /*whole=*/true);
  CHECK(status["jobs"].array().size() == limits::kStatusWholeMax + limits::kStatusOpenMax);
  CHECK(status.GetInt("jobs_left_out") == 8);
  CHECK(status["waiting"].array().size() == limits::kStatusWaitingMax);
  CHECK(status.GetInt("waiting_left_out") ==
        static_cast<int64_t>(limits::kStatusOpenMax + 3 - limits::kStatusWaitingMax));
}

TEST_CASE("status: of large jobs it lists those that fit in a message") {
  Story story;
  const std::string large =
      R"({"name":"j","resources":{"cpu":9},"argv":[")" + std::string(300'000, 'x') + R"("]})";
  for (int i = 0; i < 30; ++i) {
    const Outcome made = Step(story.core, input::SubmitJob{"me", large, ""}, story.now);
    REQUIRE(made.verdict.ok());
    if (i % 2 == 0) Step(story.core, input::StopJob{made.answer.job, "enough"}, story.now);
  }
  const Json status = StatusView(story.core, {.now = story.now});
  CHECK(status.Dump().size() < limits::kMessageBytesMax);
  CHECK(IdsOf(*status.Find("jobs")) == std::vector<int64_t>{2, 4, 6});
  CHECK(status.GetInt("jobs_left_out") == 27);
}

TEST_CASE("status: of large requests that wait it lists those that fit in a message") {
  Story story;
  const std::string name(60, 'x');
  const std::string custom = R"("custom":{"a)" + name + R"(":1,"b)" + name + R"(":1,"c)" + name +
                             R"(":1,"d)" + name + R"(":1})";
  const int count = 16;  // Each is compared with all others whenever one is made.
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i + 1);
    const std::string spec = R"({"experiment":"e)" + number +
                             R"(","command":["x"],"num_samples":1,"resources":{"cpu":)" + number +
                             R"(,"ranks":1024,)" + custom + "}}";
    const Outcome made =
        Step(story.core, input::CreateExperiment{.owner = "me", .spec = spec, .results_root = "/r"},
             story.now);
    INFO(made.verdict.ToString());
    REQUIRE(made.verdict.ok());
  }
  const Json status = StatusView(story.core, {.now = story.now});
  CHECK(status.Dump().size() < limits::kMessageBytesMax);
  const size_t listed = status.Find("waiting")->array().size();
  CHECK(listed > 0);
  CHECK(listed < count);
  CHECK(status.Find("pending")->array().size() > 0);
  CHECK(status.GetInt("waiting_left_out") == static_cast<int64_t>(count - listed));
}

TEST_CASE("lists: pages have a bound, and follow each other without a gap") {
  Story story;
  Submit(story, 2 * limits::kListItemsMax + 20, false);
  const HeadFacts facts{.now = story.now};
  const Json all = JobListView(story.core, facts)["items"];
  Json pages = Json::MakeArray();
  std::vector<size_t> sizes;
  for (uint64_t from = 0; sizes.empty() || from != 0;) {
    Json page = JobPageView(story.core, facts, {.from = from});
    sizes.push_back(page["items"].array().size());
    for (Json& item : page["items"].array()) pages.Append(std::move(item));
    from = static_cast<uint64_t>(page.GetInt("next"));
    CHECK(page["next"].is_null() == (from == 0));
  }
  CHECK(sizes == std::vector<size_t>{limits::kListItemsMax, limits::kListItemsMax, 20});
  CHECK(pages == all);
}

TEST_CASE("lists: a page has as many items as asked for, from the first one wanted on") {
  Story story;
  Submit(story, 9, false);
  const HeadFacts facts{.now = story.now};
  Json page = JobPageView(story.core, facts, {.from = 4, .limit = 3});
  CHECK(IdsOf(page["items"]) == std::vector<int64_t>{4, 5, 6});
  CHECK(page.GetInt("next") == 7);
  page = JobPageView(story.core, facts, {.from = 7, .limit = 3});
  CHECK(IdsOf(page["items"]) == std::vector<int64_t>{7, 8, 9});
  CHECK(page["next"].is_null());
  CHECK(JobPageView(story.core, facts, {.from = 10})["items"].array().empty());
  CHECK(ExperimentPageView(story.core, facts, {})["items"].array().empty());
  CHECK(IdsOf(NodePageView(story.core, facts, {})["items"]) == std::vector<int64_t>{1});
}

TEST_CASE("lists: a page of large items fits in a message, and has one of them at least") {
  Story story;
  const std::string large = R"({"name":"j","argv":[")" + std::string(900'000, 'x') + R"("]})";
  for (int i = 0; i < 6; ++i)
    REQUIRE(Step(story.core, input::SubmitJob{"me", large, ""}, story.now).verdict.ok());
  const HeadFacts facts{.now = story.now};
  Json page = JobPageView(story.core, facts, {});
  CHECK(IdsOf(page["items"]) == std::vector<int64_t>{1, 2});
  CHECK(page.GetInt("next") == 3);
  CHECK(page.Dump().size() < limits::kMessageBytesMax);
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

TEST_CASE("reasons: an experiment whose driver is away says how its search is continued") {
  Story story;
  const auto create = [&](const char* key, JobId job) {
    const Outcome made = story.Do(input::CreateExperiment{
        .owner = "me",
        .job = job,
        .spec = R"({"experiment":"e","command":["x"],"driver":{"suggests":true},"num_samples":1})",
        .request_key = key,
        .drawn_seed = 9,
        .results_root = "/r"});
    REQUIRE(made.verdict.ok());
    return made.answer.experiment;
  };
  const Outcome submitted = story.Do(input::SubmitJob{"me", R"({"name":"j","argv":["x"]})", ""});
  const JobId job = submitted.answer.job;
  const ExperimentId outside = create("outside", {}), inside = create("inside", job);
  const auto why = [&](ExperimentId id) { return WhyAsking(story.core, id, story.now); };
  CHECK(why(outside) ==
        "waits for its driver, which is away, to suggest trial 1/0: run the script "
        "again");
  CHECK(why(inside) == "waits for its driver, which is away, to suggest trial 2/0: it is job 1");
  story.SyncTwice();
  story.Exit({{Owner::Of(job), 1, 1}, 0}, 1, 0);
  CHECK(why(inside) ==
        "waits for its driver, which is away, to suggest trial 2/0: job 1 has ended; "
        "a script with Tuner.restore continues the search");
}

TEST_CASE("reasons: a driver in a function of the user's says in which one and since when") {
  Story story;
  const JobId job = story.Do(input::SubmitJob{"me", R"({"name":"j","argv":["x"]})", ""}).answer.job;
  const Outcome made = story.Do(input::CreateExperiment{
      .owner = "me",
      .job = job,
      .spec = R"({"experiment":"e","command":["x"],"driver":{"suggests":true},"num_samples":1})",
      .request_key = "k",
      .drawn_seed = 9,
      .results_root = "/r"});
  const ExperimentId id = made.answer.experiment;
  const uint64_t session = story.Do(input::AttachDriver{id, "d"}).answer.session;
  story.SyncTwice();
  const auto why = [&] { return WhyAsking(story.core, id, story.now); };
  const auto why_job = [&] {
    const HeadFacts facts{.now = story.now};
    return JobView(story.core, facts, job)->GetString("reason");
  };
  REQUIRE(
      story.Do(input::DriverListens{id, session, "stop function f (a.py:3)", 4'000}).verdict.ok());
  const std::string since = FormatTime(story.now - 4'000);
  CHECK(why() ==
        "waits for its driver to suggest trial 1/0: the driver has been in stop function "
        "f (a.py:3) since " +
            since);
  CHECK(why_job() == "has been in stop function f (a.py:3) since " + since + ", for experiment 1");
  const Json waits = StatusView(story.core, HeadFacts{.now = story.now});
  CHECK(waits.Find("pending")->array().front().GetString("since") == since);
  // An older driver is not believed, and the driver's next question ends it.
  CHECK(!story.Do(input::DriverListens{id, session + 1, "g", 1}).verdict.ok());
  REQUIRE(story.Do(input::DriverListens{id, session}).verdict.ok());
  CHECK(why().empty());
  CHECK(why_job().empty());
  // Without its driver, the last that it said is no news.
  REQUIRE(story.Do(input::DriverListens{id, session, "f", 0}).verdict.ok());
  story.now += limits::kDriverAwayAfter + 1;
  CHECK(why().find("away") != std::string::npos);
  CHECK(why_job().empty());
  // Nor is it once its job has ended, until another driver is heard.
  REQUIRE(story.Do(input::DriverListens{id, session, "f", 0}).verdict.ok());
  CHECK(why().find("has been in f") != std::string::npos);
  story.Exit({{Owner::Of(job), 1, 1}, 0}, 1, 0);
  CHECK(why() ==
        "waits for its driver, which is away, to suggest trial 1/0: job 1 has ended; a script with "
        "Tuner.restore continues the search");
  story.now += 1;
  const uint64_t later = story.Do(input::AttachDriver{id, "d2"}).answer.session;
  REQUIRE(story.Do(input::DriverListens{id, later, "g", 0}).verdict.ok());
  CHECK(why().find("the driver has been in g") != std::string::npos);
}
