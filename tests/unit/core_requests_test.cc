// Request keys belong to their users, and to what was asked for with them.
#include "tests/unit/core_story.h"

namespace rt {
namespace {

input::CreateExperiment Asks(const std::string& owner, const std::string& spec) {
  return {.owner = owner, .spec = spec, .request_key = "k", .drawn_seed = 9, .results_root = "/r"};
}
input::SubmitJob AsksJob(const std::string& owner, const std::string& argv) {
  return {owner, R"({"name":"drive","argv":[")" + argv + R"("]})", "k"};
}
const char kSpec[] = R"({"experiment":"e","command":["x"],"num_samples":2})";

}  // namespace

TEST_CASE("requests: the same key of another user is another request") {
  Story story;
  const Outcome anns = story.Do(Asks("ann", kSpec));
  const Outcome bobs = story.Do(Asks("bob", kSpec));
  REQUIRE(bobs.verdict.ok());
  CHECK(!bobs.answer.attached);
  CHECK(bobs.answer.experiment != anns.answer.experiment);
  for (const auto& [owner, first] : {std::pair("ann", anns), std::pair("bob", bobs)}) {
    const Outcome again = story.Do(Asks(owner, kSpec));
    CHECK(again.answer.attached);
    CHECK(again.answer.experiment == first.answer.experiment);
    CHECK(again.records.empty());
  }
  CHECK(!story.Do(AsksJob("eve", "x")).answer.attached);
  CHECK(story.Do(AsksJob("eve", "x")).answer.attached);
}

TEST_CASE("requests: the same key with another specification is refused") {
  Story story;
  REQUIRE(story.Do(Asks("ann", kSpec)).verdict.ok());
  const Outcome other =
      story.Do(Asks("ann", R"({"experiment":"e","command":["x"],"num_samples":3})"));
  CHECK(absl::IsAlreadyExists(other.verdict));
  CHECK(MessageOf(other.verdict).find("experiment 1, with another") != std::string::npos);
  CHECK(other.records.empty());
  REQUIRE(story.Do(AsksJob("bob", "x")).verdict.ok());
  CHECK(absl::IsAlreadyExists(story.Do(AsksJob("bob", "y")).verdict));
  CHECK(absl::IsInvalidArgument(
      story.Do(input::SubmitJob{"bob", R"({"argv":["x"]})", std::string("k\0", 2)}).verdict));
}

TEST_CASE("requests: what a driver that is run again draws anew does not make another request") {
  Story story;
  REQUIRE(story.Do(Asks("ann", R"({"experiment":"train_2026-01-01","command":["x"],"seed":1,
      "inputs":[{"manifest":"m1","env":"RT_TRAINABLE"}],"env":{"A":"1"},"num_samples":2})"))
              .verdict.ok());
  const Outcome again = story.Do(Asks("ann", R"({"num_samples":2,"command":["x"],"seed":2,
      "experiment":"train_2026-01-02","inputs":[{"manifest":"m2","env":"RT_TRAINABLE"}]})"));
  CHECK(again.verdict.ok());
  CHECK(again.answer.attached);
}

TEST_CASE("requests: an experiment belongs to a job of its own user only") {
  Story story;
  const JobId job = story.Do(AsksJob("ann", "x")).answer.job;
  input::CreateExperiment bobs = Asks("bob", kSpec), anns = Asks("ann", kSpec);
  bobs.job = anns.job = job;
  bobs.request_key = anns.request_key = "of a job";
  const Outcome refused = story.Do(bobs);
  CHECK(absl::IsPermissionDenied(refused.verdict));
  CHECK(MessageOf(refused.verdict) == "job 1 belongs to another user");
  CHECK(refused.records.empty());
  CHECK(story.Do(anns).verdict.ok());
}

TEST_CASE("requests: a new name that commands read as ids or as an option is refused") {
  Story story;
  for (const char* name : {"130", "2-3", "1,2", "last", "all", "-x", ".x"}) {
    INFO(name);
    const std::string text = name;
    const absl::Status experiment =
        story.Do(Asks("ann", R"({"experiment":")" + text + R"(","command":["x"]})")).verdict;
    CHECK(absl::IsInvalidArgument(experiment));
    CHECK(SpecPathOf(experiment) == "experiment");
    CHECK(absl::IsInvalidArgument(
        story.Do(input::SubmitJob{"ann", R"({"argv":["x"],"name":")" + text + R"("})", "j"})
            .verdict));
  }
  CHECK(absl::IsInvalidArgument(
      story.Do(input::SubmitJob{"ann", R"({"argv":["x"],"name":"j3"})", "j"}).verdict));
  for (const char* name : {"t5", "n1", "2026-11-26", "1e-3", "lastly"}) {
    INFO(name);
    const std::string spec = R"({"command":["x"],"experiment":")" + std::string(name) + R"("})";
    input::CreateExperiment create = Asks("ann", spec);
    create.request_key = name;
    CHECK(story.Do(create).verdict.ok());
  }
}

}  // namespace rt
