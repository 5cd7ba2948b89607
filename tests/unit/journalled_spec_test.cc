// Specs that earlier releases journalled (tests/data/specs, by release) and those of this one.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

namespace fs = std::filesystem;

struct Fixture {
  std::string name;
  std::string text;
};

// Those whose name begins with `kind`, in the folder of a release or in its folder "refused".
std::vector<Fixture> Fixtures(const std::string& kind, bool refused) {
  std::vector<Fixture> all;
  for (const auto& release : fs::directory_iterator(RT_RECORDED_SPECS)) {
    const fs::path folder = refused ? release.path() / "refused" : release.path();
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.path().filename().string().starts_with(kind)) continue;
      std::ifstream file(entry.path());
      std::stringstream text;
      text << file.rdbuf();
      all.push_back({entry.path().string(), text.str()});
    }
  }
  REQUIRE(!all.empty());
  return all;
}

std::string Refused(const std::string& name) {
  for (const Fixture& fixture : Fixtures("", true))
    if (fs::path(fixture.name).filename() == name) return fixture.text;
  FAIL("no fixture " << name);
  return "";
}

bool Says(const std::vector<std::string>& warnings, const std::string& what) {
  return std::any_of(warnings.begin(), warnings.end(), [&](const std::string& warning) {
    return warning.find(what) != std::string::npos;
  });
}

std::string Changed(const std::string& normal, const std::string& from, const std::string& to) {
  std::string text = normal;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

SpecReading<ExperimentSpec> ReadNormal(const std::string& normal) {
  return ReadJournalledExperiment({.normal = normal, .format = 2});
}

const char kPatterns[] = R"x({"experiment":"e","command":["x"],"metric":"loss",
    "report_regex":"loss=(.*)","retry":[{"log":"OOM","then":"retry"},{"exit_code":3,"then":"fail"}],
    "space":{"a":{"grid":[1,2]},"b":{"uniform":[0,1]}}})x";

const char kSchedules[] = R"x({"experiment":"e","command":["x"],"metric":"loss",
    "scheduler":{"asha":{"max_t":9}}})x";

std::string NormalOf(const std::string& text) {
  auto spec = ParseExperimentSpec(*Json::Parse(text));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return NormalText(*spec);
}

}  // namespace

TEST_CASE("journalled spec: what a release wrote is read as its parser understood it") {
  for (const Fixture& fixture : Fixtures("experiment", false)) {
    INFO(fixture.name);
    auto strict = ParseExperimentSpec(*Json::Parse(fixture.text));
    INFO(strict.status().ToString());
    REQUIRE(strict.ok());
    CHECK(strict->strict_metric);
    strict->strict_metric = false;  // That release accepted rows without the metric.
    const auto reading = ReadJournalledExperiment({.text = fixture.text});
    CHECK(reading.warnings.empty());
    CHECK(!reading.closed);
    CHECK(NormalText(reading.spec) == NormalText(*strict));
  }
  for (const Fixture& fixture : Fixtures("job", false)) {
    INFO(fixture.name);
    auto strict = ParseJobSpec(*Json::Parse(fixture.text));
    REQUIRE(strict.ok());
    const auto reading = ReadJournalledJob({.text = fixture.text});
    CHECK(reading.warnings.empty());
    CHECK(NormalText(reading.spec) == NormalText(*strict));
  }
  for (const Fixture& fixture : Fixtures("resources", false)) {
    INFO(fixture.name);
    auto strict = ParseResourceRequest(*Json::Parse(fixture.text), "resources");
    REQUIRE(strict.ok());
    const auto reading = ReadJournalledResources({.text = fixture.text});
    CHECK(reading.warnings.empty());
    CHECK(reading.spec == *strict);
  }
}

TEST_CASE("journalled spec: the normalised form is read back as it was written") {
  for (const Fixture& fixture : Fixtures("experiment", false)) {
    INFO(fixture.name);
    const std::string normal = NormalOf(fixture.text);
    const auto reading = ReadNormal(normal);
    CHECK(reading.warnings.empty());
    CHECK(!reading.closed);
    CHECK(NormalText(reading.spec) == normal);
    CHECK(reading.spec.TrialsTotal() == ParseExperimentSpec(*Json::Parse(fixture.text))
                                            ->TrialsTotal());
  }
  for (const Fixture& fixture : Fixtures("job", false)) {
    const std::string normal = NormalText(*ParseJobSpec(*Json::Parse(fixture.text)));
    const auto reading = ReadJournalledJob({.normal = normal, .format = 1});
    CHECK(reading.warnings.empty());
    CHECK(NormalText(reading.spec) == normal);
  }
  for (const Fixture& fixture : Fixtures("resources", false)) {
    const ResourceRequest request = *ParseResourceRequest(*Json::Parse(fixture.text), "resources");
    const auto reading = ReadJournalledResources({.normal = NormalText(request), .format = 1});
    CHECK(reading.warnings.empty());
    CHECK(reading.spec == request);
  }
  const Json grouped = *Json::Parse(R"({"cpu":1,"ranks":4,"ranks_per_node":2})");
  const ResourceRequest request = *ParseResourceRequest(grouped, "resources");
  const auto reading = ReadJournalledResources({.normal = NormalText(request), .format = 1});
  CHECK(reading.warnings.empty());
  CHECK(reading.spec == request);
}

TEST_CASE("journalled spec: format 1 is read as the spec from which it was made") {
  for (const Fixture& fixture : Fixtures("experiment", false)) {
    const fs::path name = fs::path(fixture.name).filename();
    INFO(name);
    std::ifstream file(fs::path(RT_RECORDED_NORMALS) / "1" / name);
    std::stringstream text;
    text << file.rdbuf();
    const auto reading = ReadJournalledExperiment({.normal = text.str(), .format = 1});
    CHECK(reading.warnings.empty());
    CHECK(!reading.closed);
    CHECK(NormalText(reading.spec) == NormalOf(fixture.text));
  }
}

TEST_CASE("journalled spec: an algorithm that this release does not have is switched off") {
  const std::string normal = NormalOf(kSchedules);
  auto scheduler = ReadNormal(Changed(normal, "\"name\":\"asha\"", "\"name\":\"hyperspace\""));
  CHECK(scheduler.spec.scheduler.name == "fifo");
  CHECK(!scheduler.closed);
  CHECK(Says(scheduler.warnings, "scheduler: 'hyperspace' is not known to this release"));
  auto search = ReadNormal(Changed(normal, "\"name\":\"basic\"", "\"name\":\"oracle\""));
  CHECK(search.closed);
  CHECK(Says(search.warnings, "search: 'oracle' is not known to this release"));
  auto version = ReadNormal(Changed(normal, "\"asha\",\"version\":1", "\"asha\",\"version\":9"));
  CHECK(version.spec.scheduler.version == 1);
  CHECK(Says(version.warnings, "does not have version 9 of 'asha'; version 1 is used"));
  auto option = ReadNormal(Changed(normal, "\"max_t\":9.0", "\"max_t\":\"far\",\"orbit\":1"));
  CHECK(option.spec.scheduler.options.GetDouble("max_t") == 100);
  CHECK(Says(option.warnings, "scheduler/asha/max_t: must be a number"));
  CHECK(Says(option.warnings, "scheduler/asha/orbit: is not known"));
}

TEST_CASE("journalled spec: what the parser refuses by now is switched off, the rest stays") {
  for (const Fixture& fixture : Fixtures("experiment", true)) {
    INFO(fixture.name);
    REQUIRE(!ParseExperimentSpec(*Json::Parse(fixture.text)).ok());
    CHECK(!ReadJournalledExperiment({.text = fixture.text}).warnings.empty());
  }
  auto pattern = ReadJournalledExperiment({.text = Refused("experiment-pattern.json")});
  CHECK(pattern.spec.report_regex.empty());
  REQUIRE(pattern.spec.retry.size() == 3);  // Rules are known by their numbers.
  CHECK(pattern.spec.retry[0].Matches(137, false));
  CHECK(pattern.spec.retry[1].off);
  CHECK(!pattern.spec.retry[1].Matches(1, true));
  CHECK(pattern.spec.retry[2].Matches(3, false));
  CHECK(Says(pattern.warnings, "report_regex: not a regular expression"));
  CHECK(Says(pattern.warnings, "retry/1/log"));
  auto scheduler = ReadJournalledExperiment({.text = Refused("experiment-scheduler.json")});
  CHECK(scheduler.spec.scheduler.name == "fifo");  // Not ASHA with another max_t.
  CHECK(scheduler.spec.num_samples == 4);
  CHECK(Says(scheduler.warnings, "unknown key 'patience'"));
  CHECK(Says(scheduler.warnings, "unknown key 'novel'"));
  auto ranges = ReadJournalledExperiment({.text = Refused("experiment-ranges.json")});
  CHECK(ranges.spec.name == "e/f");
  CHECK(ranges.spec.command == std::vector<std::string>{"x", "${nothing}"});
  CHECK(ranges.spec.resources.bundles.size() == 2);  // Attempts may live in them.
  CHECK(ranges.spec.resources.one().memory == Bytes{2} << 30);
  CHECK(ranges.spec.resources.one().cpu == 0);
  REQUIRE(ranges.spec.stop.size() == 1);
  CHECK(ranges.spec.stop[0].key == "training_iteration");
  CHECK(ranges.spec.env == std::map<std::string, std::string>{{"A", "b"}});
  REQUIRE(ranges.spec.inputs.size() == 1);
  CHECK(ranges.spec.inputs[0].manifest == "n");
  CHECK(ranges.spec.checkpoints.score_attribute == "loss");
  CHECK(!ranges.spec.checkpoints.num_to_keep.has_value());
  CHECK(ranges.spec.breaker.within == 30'000);
  CHECK(!ranges.closed);
}

TEST_CASE("journalled spec: a search space that cannot be read makes no more trials") {
  auto space = ReadJournalledExperiment({.text = Refused("experiment-space.json")});
  CHECK(space.closed);
  CHECK(space.spec.command == std::vector<std::string>{"x", "${lr}"});
  auto nothing = ReadJournalledExperiment({.text = Refused("experiment-nothing.json")});
  CHECK(nothing.closed);
  CHECK(ReadJournalledExperiment({.text = "no JSON"}).closed);
  CHECK(ReadNormal(Changed(NormalOf(kPatterns), "\"kind\":\"uniform\"", "\"kind\":\"levy\""))
            .closed);
}

TEST_CASE("journalled spec: jobs and resources lose only what cannot be read") {
  auto job = ReadJournalledJob({.text = Refused("job-argv.json")});
  CHECK(job.spec.name == "j");
  CHECK(job.spec.argv == std::vector<std::string>{"false"});
  CHECK(Says(job.warnings, "argv"));
  CHECK(Says(job.warnings, "resources/cpu"));
  auto request = ReadJournalledResources({.text = Refused("resources-odd.json")});
  CHECK(request.spec.bundles.size() == 2);
  CHECK(request.spec.bundles[1].cpu == 2 * kUnit);
  CHECK(request.spec.bundles[1].gpu == 0);
  CHECK(request.spec.ranks == 2);
}

TEST_CASE("journalled spec: a rule for programs that ran out of gpu memory is read back") {
  const std::string normal = NormalOf(
      R"x({"experiment":"e","command":["x"],"retry":[{"oom":true,"then":"exclude_node"}]})x");
  const auto reading = ReadNormal(normal);
  CHECK(reading.warnings.empty());
  REQUIRE(reading.spec.retry.size() == 1);
  CHECK(reading.spec.retry[0].Matches(1, false, true));
  CHECK(!reading.spec.retry[0].Matches(1, false, false));
}

TEST_CASE("journalled spec: what a later release wrote is read as far as it is known") {
  const std::string normal = NormalOf(kPatterns);
  auto key = ReadNormal(Changed(normal, "\"metric\":", "\"orbit\":3,\"metric\":"));
  CHECK(Says(key.warnings, "orbit: is not known to this release"));
  CHECK(key.spec.metric == "loss");
  auto type = ReadNormal(Changed(normal, "\"priority\":0", "\"priority\":\"high\""));
  CHECK(Says(type.warnings, "priority: is not a whole number"));
  auto regex = ReadNormal(Changed(normal, "loss=(.*)", "loss=(.*"));
  CHECK(regex.spec.report_regex.empty());
  CHECK(Says(regex.warnings, "report_regex"));
  auto rule = ReadNormal(Changed(normal, "\"log\":\"OOM\"", "\"log\":\"(\""));
  REQUIRE(rule.spec.retry.size() == 2);
  CHECK(rule.spec.retry[0].off);
  CHECK(!rule.spec.retry[1].off);
  CHECK(ReadNormal("").warnings.size() >= 1);
  auto format = ReadJournalledExperiment({.normal = normal, .format = 9});
  CHECK(Says(format.warnings, "format 9"));
  CHECK(format.spec.command == std::vector<std::string>{"x"});
}
