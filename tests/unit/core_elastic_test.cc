// Elastic owners: what the stories of tests/scenario do not show.
#include "common/base/limits_elastic.h"
#include "head/core/draft.h"
#include "head/core/elastic.h"
#include "tests/unit/core_story.h"

using namespace rt;

namespace {

// One elastic trial on the node of two cpus.
struct Elastic : Story {
  ElasticDesk desk;
  Owner owner = Owner::Of(TrialId{{1}, 0});

  Elastic() {
    Create(R"(,"resources":{"cpu":1,"ranks":[1,2]})");
    SyncTwice();
  }
  const Attempt& live() const { return *FindRuns(core.world.state, owner)->live(); }
  std::optional<ElasticQuestion> Ask() {
    now += limits::kElasticLookEvery;
    return desk.Ask(core, now);
  }
  // The sizes of the answer, which is given to the head.
  std::vector<uint32_t> Share() {
    const auto question = Ask();
    if (!question.has_value()) return {};
    const input::ElasticAnswered answer = AnswerElastic(*question);
    desk.Take(answer);
    REQUIRE(Do(answer).verdict.ok());
    std::vector<uint32_t> sizes;
    for (const SharedGroup& group : answer.answer.groups)
      for (const SharedJob& job : group.jobs)
        if (!job.fixed) sizes.push_back(job.ranks);
    return sizes;
  }
  // As the equal split answers where the attempt may have so many ranks, and the others keep
  // theirs.
  input::ElasticAnswered AnswerFor(const AttemptId& attempt, uint32_t ranks) {
    event::SizesAnswered asked{.observed_through = core.world.state.seq,
                               .groups = SharedIn(core.world)};
    SharedGroup& group = asked.groups.at(0);
    group.ranks_per_node = 2;
    group.capacity = ranks;
    for (SharedJob& job : group.jobs) {
      job.fixed = job.attempt != attempt;
      if (job.fixed) group.capacity += job.held;
    }
    input::ElasticAnswered answered = AnswerElastic(QuestionOf(asked, {}));
    answered.epoch = core.world.state.epoch;
    answered.asked_at = now;
    for (SharedJob& job : answered.answer.groups[0].jobs)
      if (!job.fixed) job.ranks = ranks;
    return answered;
  }
  input::ElasticAnswered AnswerOf(uint32_t ranks) {
    return AnswerFor({owner, live().number, live().generation}, ranks);
  }
  // To two ranks: the first generation saves and ends, and the second one runs.
  void Grow() {
    REQUIRE(Share() == std::vector<uint32_t>{2});
    SaveAndEnd();
    running.erase(FenceOf(0));
    REQUIRE(live().members.size() == 2);
  }
  bool AsksFor(const input::ElasticAnswered& answer) { return !Do(answer).records.empty(); }
};

}  // namespace

TEST_CASE("elastic: an attempt that runs alone is to have all that is free") {
  Elastic story;
  CHECK(RequestOf(story.core.world, story.owner).ranks == 1);
  CHECK(story.Share() == std::vector<uint32_t>{2});
  CHECK(story.live().resize.members.size() == 2);
  CHECK_FALSE(story.Ask().has_value());  // A resize is under way.
}

TEST_CASE("elastic: questions to a policy are seconds apart, whatever changes") {
  Elastic story;
  const auto question = story.Ask();
  REQUIRE(question.has_value());
  story.desk.Take(AnswerElastic(*question));
  ++story.core.world.index.capacity_version;
  CHECK_FALSE(story.Ask().has_value());
  story.now += limits::kElasticAskEvery;
  CHECK(story.Ask().has_value());
}

TEST_CASE(
    "elastic: an answer that had no time, or comes after its question was repeated, is none") {
  Elastic story;
  const auto question = story.Ask();
  REQUIRE(question.has_value());
  size_t looks = 0;
  const auto count = [&] { return ++looks, false; };
  REQUIRE(AnswerElastic(*question, count).answer == AnswerElastic(*question).answer);
  for (size_t most = 1; most <= looks; ++most) {
    size_t left = most;
    const input::ElasticAnswered none = AnswerElastic(*question, [&] { return --left == 0; });
    CHECK(none.answer.groups.empty());
    CHECK_FALSE(story.AsksFor(none));
  }
  const input::ElasticAnswered late = story.AnswerOf(2);
  for (const Millis until = story.now + limits::kLaneOverdueAfter; story.now <= until;) {
    story.now += 1'000;
    story.Sync();
  }
  CHECK_FALSE(story.AsksFor(late));
  CHECK(story.AsksFor(story.AnswerOf(2)));
}

TEST_CASE("elastic: an answer to another head, of other bounds or another generation is dropped") {
  Elastic story;
  input::ElasticAnswered old = story.AnswerOf(2);
  --old.epoch;
  CHECK_FALSE(story.AsksFor(old));
  input::ElasticAnswered ahead = story.AnswerOf(2);
  ahead.answer.observed_through = story.core.world.state.seq + 1;
  CHECK_FALSE(story.AsksFor(ahead));
  CHECK_FALSE(story.AsksFor(story.AnswerOf(3)));
  CHECK_FALSE(story.AsksFor(story.AnswerOf(0)));
  input::ElasticAnswered other = story.AnswerOf(2);
  ++other.answer.groups[0].jobs[0].attempt.generation;
  CHECK_FALSE(story.AsksFor(other));
  CHECK(story.AsksFor(story.AnswerOf(2)));
  CHECK_FALSE(story.AsksFor(story.AnswerOf(2)));  // It came twice.
}

TEST_CASE("elastic: an attempt that does not save is asked less and less often") {
  Elastic story;
  Millis before = 0;
  for (int i = 0; i < 3; ++i) {
    const Millis begin = story.now;
    while (story.Share().empty()) {
      story.now += 1'000;
      story.Sync();
      REQUIRE(story.now < begin + 1'000'000);
    }
    REQUIRE(story.live().resize.is_pending());
    CHECK(story.now - begin >= before);
    before = story.now - begin + limits::kElasticInterval / 2;
    // It keeps its size: the growth is given up.
    while (story.live().resize.is_pending()) {
      story.now += 1'000;
      story.Sync();
    }
    CHECK(story.live().members.size() == 1);
  }
}

TEST_CASE("elastic: a waiter that fits nowhere prevents no growth, and a late answer is checked") {
  Elastic story;
  story.Create(R"(,"resources":{"cpu":2},"priority":-1)");  // Fits beside no other.
  CHECK(story.AsksFor(story.AnswerOf(2)));                  // It could not run anyway.
  Elastic other;
  const auto question = other.Ask();  // Before the plain trial is there.
  other.Create(R"(,"resources":{"cpu":1})");
  CHECK(other.core.world.index.ready.empty());  // It runs.
  other.Do(AnswerElastic(*question));
  CHECK_FALSE(other.live().resize.is_pending());  // No capacity any more.
}

TEST_CASE("elastic: nothing grows while an owner waits who gets capacity that is on its way") {
  Elastic story;
  const auto sync = [&] {  // A node of four cpus.
    input::Sync now = story.SyncInput();
    now.inventory.resources.cpu = 4 * kUnit;
    story.Do(now);
    for (const DesiredAttempt& desired : DesiredFor(story.core.world, story.node))
      if (!story.running.contains(desired.fence))
        story.running[desired.fence] = {desired.fence, Observed::Phase::kRunning, 4242};
  };
  sync();
  REQUIRE(story.AsksFor(story.AnswerOf(2)));
  const Fence first = story.FenceOf(0);
  story.Do(input::CommitCheckpoint{.node = story.node,
                                   .fence = first,
                                   .manifest = "m",
                                   .row = {.seq = 1, .iteration = 1, .metrics = "{}"},
                                   .bytes = 1});
  Observed& observed = story.running.at(first);
  observed.phase = Observed::Phase::kExited;
  observed.suspended = true;
  observed.signal = 15;
  observed.last_seq = 1;
  sync();
  story.running.erase(first);
  sync();
  sync();
  REQUIRE(story.live().members.size() == 2);
  const ExperimentId second = story.Create(R"(,"resources":{"cpu":1,"ranks":[1,2]})"
                                           R"(,"num_samples":1)");
  sync();
  sync();
  const AttemptId other{Owner::Of(TrialId{second, 0}), 1, 1};
  REQUIRE(FindLive(story.core.world.state, other) != nullptr);
  // These fit nowhere, and are less urgent than what follows.
  for (size_t i = 1; i <= limits::kPreemptionsPerRound; ++i)
    story.Create(R"(,"resources":{"cpu":)" + std::to_string(0.01 * static_cast<double>(i)) +
                 R"(,"gpu":1},"priority":-1)");
  // Two cpus: one is free, and the other one is what the first attempt has beyond its minimum.
  story.Create(R"(,"resources":{"cpu":2})");
  REQUIRE(story.live().resize.members.size() == 1);
  CHECK_FALSE(story.AsksFor(story.AnswerFor(other, 2)));
}

TEST_CASE("elastic: after a loss it needs its minimum, whatever size it had") {
  Elastic story;
  story.Grow();
  CHECK(story.core.world.index.elastic.contains(story.owner));
  story.Do(input::RemoveNode{story.node, "gone"});
  CHECK(FindRuns(story.core.world.state, story.owner)->live() == nullptr);
  CHECK(RequestOf(story.core.world, story.owner).ranks == 1);
  CHECK(story.core.world.index.elastic.empty());
  World restarted;
  restarted.state = story.core.world.state;
  Reindex(restarted);
  CHECK(RequestOf(restarted, story.owner) == RequestOf(story.core.world, story.owner));
}

// Its ranks save together: one that was not asked holds up the save of the others.
TEST_CASE("elastic: each rank is asked to save, also before its first row") {
  Elastic story;
  story.Grow();
  for (auto& [fence, observed] : story.running) observed.port = 40'000;  // Where the ranks meet.
  story.SyncTwice();
  const auto asked = [&] {
    std::vector<uint32_t> ranks;
    for (const DesiredAttempt& desired : DesiredFor(story.core.world, story.node))
      if (desired.suspend || desired.evict) ranks.push_back(desired.fence.rank);
    return ranks;
  };
  REQUIRE(story.running.size() == 2);
  REQUIRE(asked().empty());
  SECTION("pause") {
    REQUIRE(story.Do(input::PauseTrial{{{1}, 0}, PauseCause::kUser, "by hand"}).verdict.ok());
    CHECK(asked() == std::vector<uint32_t>{0, 1});
  }
  SECTION("drain") {
    REQUIRE(story.Do(input::DrainNode{story.node, "maintenance"}).verdict.ok());
    CHECK(asked() == std::vector<uint32_t>{0, 1});
  }
  SECTION("resize") {
    story.now += limits::kElasticInterval;
    REQUIRE(story.AsksFor(story.AnswerOf(1)));
    CHECK(asked() == std::vector<uint32_t>{0, 1});
  }
}

TEST_CASE("elastic: what an answer changes is journalled, and the whole follows from the state") {
  event::SizesAnswered whole{.observed_through = 7, .arrival_s = 30, .groups = {{}, {}}};
  for (uint32_t i = 0; i < 10; ++i)
    whole.groups[i / 8].jobs.push_back({.attempt = {Owner::Of(TrialId{{1}, i}), 1, 1},
                                        .held = 2,
                                        .ranks_min = 1,
                                        .ranks_max = 4,
                                        .fixed = i % 3 == 0,
                                        .ranks = 2});
  whole.groups[0].jobs[4].ranks = 3;
  whole.groups[0].jobs[5].ranks = 1;
  const event::SizesAnswered changes = ChangesOf(whole);
  REQUIRE(changes.groups.size() == 1);
  CHECK(changes.groups[0].asked == 8);
  CHECK(changes.groups[0].fixed == std::vector<uint32_t>{0, 3, 6});
  CHECK(changes.groups[0].jobs ==
        std::vector<SharedJob>{whole.groups[0].jobs[4], whole.groups[0].jobs[5]});
  std::vector<SharedGroup> known = whole.groups;
  for (SharedGroup& group : known)
    for (SharedJob& job : group.jobs) job.fixed = false;
  whole.groups.pop_back();
  const auto questions_of = [](const event::SizesAnswered& answer) {
    return AnswerElastic(QuestionOf(answer, {})).answer;
  };
  CHECK(questions_of(WholeOf(changes, known)) == questions_of(whole));
  known[0].jobs.pop_back();  // Another state.
  CHECK(WholeOf(changes, known).groups.empty());
  CHECK(WholeOf(changes, {}).groups.empty());
}

TEST_CASE("elastic: a quiet cluster of ten elastic trials writes nothing") {
  Story story;
  ElasticDesk desk;
  story.Create(R"(,"resources":{"cpu":0.2,"ranks":[1,2]},"num_samples":10)");
  story.SyncTwice();
  REQUIRE(story.core.world.index.elastic.size() == 10);
  size_t questions = 0, records = 0;
  for (int second = 0; second < 600; ++second) {
    story.now += 1'000;
    story.Sync();
    const auto question = desk.Ask(story.core, story.now);
    if (!question.has_value()) continue;
    ++questions;
    const input::ElasticAnswered answer = AnswerElastic(*question);
    desk.Take(answer);
    records += story.Do(answer).records.size();
  }
  CHECK(questions >= 20);
  CHECK(records == 0);
}

TEST_CASE("elastic: a higher priority is to have what is free") {
  Story story;
  ElasticDesk desk;
  story.Create(R"(,"resources":{"cpu":0.5,"ranks":[1,3]},"num_samples":1)");
  story.Create(R"(,"resources":{"cpu":0.5,"ranks":[1,3]},"num_samples":1,"priority":5)");
  story.SyncTwice();
  story.now += limits::kElasticLookEvery;
  const auto question = desk.Ask(story.core, story.now);
  REQUIRE(question.has_value());
  const auto records = story.Do(AnswerElastic(*question)).records;
  REQUIRE(records.size() == 2);
  const auto& sizes = std::get<event::SizesAnswered>(records[1].event);
  REQUIRE(sizes.groups.at(0).jobs.size() == 1);
  CHECK(sizes.groups[0].jobs[0].attempt.owner.trial().experiment.value == 2);
  CHECK(sizes.groups[0].jobs[0].ranks == 3);
  CHECK(sizes.groups[0].jobs[0].priority == 5);
  CHECK(sizes.groups[0].asked == 2);
}

TEST_CASE("elastic: bounds of a size are read, and mistakes in them are refused") {
  Story story;
  const auto refuse = [&](const std::string& resources) {
    return MessageOf(
        story
            .Do(input::CreateExperiment{
                .spec = R"({"experiment":"e","command":["x"],"resources":)" + resources + "}",
                .request_key = resources,
                .drawn_seed = 9,
                .results_root = "/r"})
            .verdict);
  };
  CHECK(refuse(R"({"ranks":[2,1]})").find("2 is more than 1") != std::string::npos);
  CHECK(refuse(R"({"ranks":[1]})").find("a list of two") != std::string::npos);
  CHECK(refuse(R"({"ranks":[0,2]})").find("between 1 and 1024") != std::string::npos);
  CHECK(refuse(R"({"ranks":[1,2],"ranks_per_node":1})").find("fixed") != std::string::npos);
  CHECK(refuse(R"({"ranks":[2,2]})").empty());  // A fixed size.
}
