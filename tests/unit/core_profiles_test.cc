// What elastic attempts measure: when it becomes a record, what is kept, and what follows from it.
#include "common/base/limits_elastic.h"
#include "head/core/answer_checker.h"
#include "head/core/elastic.h"
#include "head/core/owner_policy.h"
#include "head/core/profiles.h"
#include "tests/unit/core_story.h"

using namespace rt;

namespace {

StepPoint PointOf(uint32_t ranks, uint64_t count, double step_s = 0.1) {
  return {.nodes = 1, .ranks = ranks, .local_batch = 16, .count = count, .step_mean = step_s};
}

ElasticProfile ProfileOf(const std::vector<StepPoint>& points, double progress = 10) {
  return {.batches = {.initial = 16, .most = 256, .accumulates = true},
          .noise = {.squared_norm = 0.01, .variance = 1},
          .progress = progress,
          .total = 10'000,
          .points = points};
}

// One elastic trial of 1 to 2 ranks on the node of two cpus.
struct Measured : Story {
  Owner owner = Owner::Of(TrialId{{1}, 0});

  Measured() {
    Create(R"(,"resources":{"cpu":1,"ranks":[1,2]})");
    SyncTwice();
  }
  const Attempt& live() const { return *FindRuns(core.world.state, owner)->live(); }
  AttemptId id() const { return {owner, live().number, live().generation}; }
  const JobProfile* known() const { return FindProfile(core.world.state, owner); }
  ProfileReport Line(uint64_t seq, const ElasticProfile& profile) const {
    return {{id(), 0}, seq, profile};
  }
  // The records that a Sync with these reports makes.
  std::vector<Record> Send(const std::vector<ProfileReport>& reports) {
    input::Sync sync = SyncInput();
    sync.profiles = reports;
    return Do(sync).records;
  }
  void Wait(Millis span) {
    for (const Millis until = now + span; now < until;) {
      now = std::min(until, now + 500);
      Sync();
    }
  }
};

}  // namespace

TEST_CASE("profiles: a measurement is recorded once, and its sender hears of it") {
  Measured story;
  const ProfileReport line = story.Line(1, ProfileOf({PointOf(1, 5)}));
  CHECK(story.Send({line}).size() == 1);
  REQUIRE(story.known() != nullptr);
  CHECK(story.known()->profile.points == std::vector<StepPoint>{PointOf(1, 5)});
  const auto desired = DesiredFor(story.core.world, story.node);
  CHECK(desired.front().profile_seq == 1);
  story.Wait(limits::kElasticInterval);
  CHECK(story.Send({line}).empty());  // Its answer was lost.
  CHECK(story.Send({story.Line(2, ProfileOf({PointOf(1, 3), PointOf(2, 7)}))}).size() == 1);
  REQUIRE(story.known()->profile.points.size() == 2);
  CHECK(story.known()->profile.points[0].count == 8);
  CHECK(story.known()->profile.points[1].count == 7);
}

TEST_CASE("profiles: a job makes one record per interval, and what waits is not lost") {
  Measured story;
  CHECK(story.Send({story.Line(1, ProfileOf({PointOf(1, 5)}))}).size() == 1);
  CHECK(story.Send({story.Line(2, ProfileOf({PointOf(1, 6)}))}).empty());
  story.Wait(limits::kElasticInterval);
  CHECK(story.Send({story.Line(2, ProfileOf({PointOf(1, 6)}))}).size() == 1);
  CHECK(story.known()->profile.points.front().count == 11);
}

TEST_CASE("profiles: other ranks, other attempts and fixed sizes are not recorded") {
  Measured story;
  ProfileReport line = story.Line(1, ProfileOf({PointOf(1, 5)}));
  line.fence.rank = 1;
  CHECK(story.Send({line}).empty());
  line = story.Line(1, ProfileOf({PointOf(1, 5)}));
  ++line.fence.attempt.generation;
  CHECK(story.Send({line}).empty());
  line.fence.attempt = {Owner::Of(TrialId{{7}, 0}), 1, 1};
  CHECK(story.Send({line}).empty());
  Story fixed;
  fixed.Create(R"(,"resources":{"cpu":1,"ranks":2})");
  fixed.SyncTwice();
  input::Sync sync = fixed.SyncInput();
  sync.profiles = {{fixed.FenceOf(0), 1, ProfileOf({PointOf(1, 5)})}};
  CHECK(fixed.Do(sync).records.empty());
  CHECK_FALSE(LaunchSpecFor(fixed.core.world, fixed.FenceOf(0)).takes_profile);
  CHECK(LaunchSpecFor(story.core.world, story.FenceOf(0)).takes_profile);
}

TEST_CASE("profiles: another initial batch begins anew") {
  Measured story;
  story.Send({story.Line(1, ProfileOf({PointOf(1, 5)}))});
  story.Wait(limits::kElasticInterval);
  ElasticProfile other = ProfileOf({PointOf(2, 4)});
  other.batches.initial = 32;
  const auto records = story.Send({story.Line(2, other)});
  REQUIRE(records.size() == 1);
  CHECK(std::get<event::ProfileRecorded>(records.front().event).whole);
  CHECK(story.known()->profile.points == std::vector<StepPoint>{PointOf(2, 4)});
}

TEST_CASE("profiles: shapes are bounded, and the rarest are dropped") {
  Measured story;
  std::vector<StepPoint> first, second;
  for (uint32_t i = 1; i <= limits::kProfilePointsMax; ++i) {
    first.push_back(PointOf(1, i == 1 ? 1 : 9));
    first.back().local_batch = i;
  }
  story.Send({story.Line(1, ProfileOf(first))});
  story.Wait(limits::kElasticInterval);
  second.push_back(PointOf(2, 2));
  const auto records = story.Send({story.Line(2, ProfileOf(second))});
  REQUIRE(records.size() == 1);
  CHECK(std::get<event::ProfileRecorded>(records.front().event).whole);
  REQUIRE(story.known()->profile.points.size() == limits::kProfilePointsMax);
  CHECK(story.known()->profile.points.front().local_batch == 2);
  CHECK(story.known()->profile.points.back().ranks == 2);
}

TEST_CASE("profiles: a class keeps the last jobs that ended, and a new job begins with them") {
  State state;
  for (uint32_t number = 0; number < 12; ++number) {
    JobProfile one{.attempt = {Owner::Of(TrialId{{9}, number}), 1, 1}, .seq = 1};
    one.job_class = number < 10 ? "a" : "b";
    one.at = 100 - number;
    one.profile = ProfileOf({PointOf(1, number + 1)});
    state.profiles.push_back(one);
  }
  const ElasticMemory memory = RecallProfiles(state);
  CHECK(memory.own.size() == 12);
  REQUIRE(memory.classes.at("a").size() == 10);
  CHECK(memory.RecordsOf("a").front().profile.points.front().count == 10);  // The oldest.
  CHECK_FALSE(memory.classes.at("a").front().has_completed);
  const Taught taught = TeachClass(memory.RecordsOf("a"));
  CHECK(memory.RecordsOf("c").empty());
  REQUIRE(taught.speed != nullptr);
  ElasticJob job{.ranks = 1, .ranks_max = 4};
  ViewJob(taught, nullptr, job);
  CHECK(job.speed == taught.speed.get());
  CHECK(job.ranks_measured == 1);
  CHECK(job.total > 0);
}

TEST_CASE("profiles: what comes with the end of its attempt is recorded") {
  Measured story;
  const ProfileReport line = story.Line(1, ProfileOf({PointOf(1, 5)}));
  Observed& rank = story.running.at(story.FenceOf(0));
  rank.phase = Observed::Phase::kExited;
  rank.witnessed = true;
  story.Send({line});
  CHECK(FindRuns(story.core.world.state, story.owner)->live() == nullptr);
  REQUIRE(story.known() != nullptr);
  CHECK(story.known()->profile.points == std::vector<StepPoint>{PointOf(1, 5)});
}

TEST_CASE("profiles: no profile of a job that may still run is dropped for another job") {
  Measured story;
  story.Create(R"(,"resources":{"cpu":1,"ranks":[1,2]},"priority":-1,"num_samples":1024)");
  for (int i = 0; i < 8; ++i) story.Do(input::Tick{});
  for (uint32_t number = 0; number < limits::kProfilesMax; ++number) {
    const Owner other = Owner::Of(TrialId{{2}, number});
    REQUIRE_FALSE(IsOver(story.core.world.state, other));
    for (State* state : {&story.core.world.state, &story.shadow.state})
      state->profiles.push_back({.attempt = {other, 1, 1},
                                 .seq = 1,
                                 .job_class = "a",
                                 .profile = ProfileOf({PointOf(1, 5)}),
                                 .at = 1'000 - number});
  }
  const ProfileReport line = story.Line(1, ProfileOf({PointOf(1, 5)}));
  CHECK(story.Send({line}).empty());
  CHECK(story.known() == nullptr);
  story.Do(input::StopTrial{{{2}, 7}});
  const auto records = story.Send({line});
  REQUIRE(records.size() == 1);
  CHECK(std::get<event::ProfileRecorded>(records.front().event).forgotten ==
        std::vector<Owner>{Owner::Of(TrialId{{2}, 7})});
  CHECK(story.core.world.state.profiles.size() == limits::kProfilesMax);
}

TEST_CASE("profiles: the check of answers keeps no more than an answer may have read") {
  Measured story;
  for (uint64_t seq = 1; seq <= 8; ++seq) {
    story.Send({story.Line(seq, ProfileOf({PointOf(1, 5)}))});
    story.Wait(limits::kElasticInterval);
  }
  CHECK(story.known()->seq == 8);
  CHECK(story.answers.MemoriesKept() == 3);
}

TEST_CASE("profiles: the hash of a class keeps the value that journals have") {
  Measured story;
  CHECK(JobClassOf(story.core.world, story.owner) == "68e6c9f256e5f763");
}

TEST_CASE("profiles: with a measurement the sizes are those of the costate policy") {
  Measured story;
  ElasticDesk desk;
  story.Send({story.Line(1, ProfileOf({PointOf(1, 50)}))});
  story.now += limits::kElasticLookEvery;
  const auto question = desk.Ask(story.core, story.now);
  REQUIRE(question.has_value());
  const input::ElasticAnswered answered = AnswerElastic(*question);
  REQUIRE(answered.answer.groups.size() == 1);
  CHECK(answered.answer.groups[0].policy == "costate");
  const SharedJob& job = answered.answer.groups[0].jobs.at(0);
  CHECK(job.ranks == 2);
  CHECK(job.speed_up > 1.2);
  CHECK(job.speed_up <= 2);
  // What it decides is journalled with it, and computes again.
  const auto records = story.Do(answered).records;
  REQUIRE(records.size() == 2);
  CHECK(std::holds_alternative<event::AttemptResizeRequested>(records[0].event));
  REQUIRE(std::holds_alternative<event::SizesAnswered>(records[1].event));
  const auto& sizes = std::get<event::SizesAnswered>(records[1].event);
  CHECK(sizes.groups.at(0).asked == 1);
  CHECK(AnswerElastic(QuestionOf(answered.answer, question->memory)).answer == answered.answer);
  CHECK_FALSE(AnswerElastic(QuestionOf(answered.answer, {})).answer == answered.answer);
}

TEST_CASE("profiles: numbers that cannot be measured are refused by name") {
  const auto why = [](ElasticProfile profile) { return MessageOf(CheckProfile(profile)); };
  ElasticProfile fine = ProfileOf({PointOf(1, 5)});
  CHECK(CheckProfile(fine).ok());
  ElasticProfile bad = fine;
  bad.batches.initial = 0;
  CHECK(why(bad).find("initial_batch") != std::string::npos);
  bad = fine;
  bad.batches.most = 8;
  CHECK(why(bad).find("max_batch") != std::string::npos);
  bad = fine;
  bad.noise.variance = -1;
  CHECK(why(bad).find("var") != std::string::npos);
  bad = fine;
  bad.points[0].step_mean = 1e300;
  CHECK(why(bad).find("a point") != std::string::npos);
  bad = fine;
  bad.points.assign(limits::kProfilePointsMax + 1, PointOf(1, 1));
  CHECK(why(bad).find("at most") != std::string::npos);
}
