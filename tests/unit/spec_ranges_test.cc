// Which ranges no search algorithm can draw from, and what first configurations may hold.
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {

// Of an experiment with this space and these options of basic.
std::string ErrorOfSpace(const std::string& space, const std::string& basic = "{}") {
  const std::string text = R"({"experiment":"e","command":["x"],"search":{"random":)" + basic +
                           R"(},"space":)" + space + "}";
  const absl::Status status = ParseExperimentSpec(*Json::Parse(text)).status();
  return status.ok() ? "" : MessageOf(status);
}
std::string ErrorOfDomain(const std::string& domain) {
  return ErrorOfSpace(R"({"x":)" + domain + "}");
}

}  // namespace

TEST_CASE("spec: a range that cannot be drawn from is refused") {
  const auto refuses = [](const std::string& domain, const std::string& why) {
    INFO(domain);
    const std::string error = ErrorOfDomain(domain);
    CHECK(error.starts_with("space/x: "));
    CHECK(error.find(why) != std::string::npos);
  };
  for (const char* domain :
       {R"({"quniform":[0,1,1e-20]})", R"({"quniform":[0,1e20,1]})", R"({"quniform":[0,3e19,1]})",
        R"({"qrandn":[0,1e20,1]})", R"({"qrandn":[1e20,1,1]})", R"({"qloguniform":[1,1e17,1]})"})
    refuses(domain, "at most 2^53 (9e15) multiples");
  for (const char* domain :
       {R"({"uniform":[-1.7e308,1.7e308]})", R"({"randn":[1e308,1]})", R"({"randn":[0,1e308]})",
        R"({"loguniform":[1,1.7e308]})", R"({"qrandn":[0,1e308,1e300]})"})
    refuses(domain, "above 1e300");
  refuses(R"({"loguniform":[5e-324,1]})", "must be 1e-300 or more");
  refuses(R"({"qloguniform":[1e-310,1e-300,1e-310]})", "must be 1e-300 or more");
  refuses(R"({"qrandn":[0,1,5e-324]})", "q must be 1e-300 or more");
  for (const char* domain :
       {R"({"uniform":[-1e300,1e300]})", R"({"loguniform":[1e-300,1e300]})",
        R"({"quniform":[0,9e15,1]})", R"({"qrandint":[-9000000000000000,9000000000000000,1]})",
        R"({"randn":[0,0]})", R"({"qrandn":[0,1,0.1]})", R"({"choice":[1e308,"x"]})"})
    CHECK(ErrorOfDomain(domain).empty());
}

TEST_CASE("spec: a point gives a variable what it could draw, also outside its range") {
  const std::string space = R"({"lr":{"uniform":[0,1]},"net":{"n":{"randint":[1,9]}},
      "kind":{"choice":["a","b"]},"seed":{"grid":[1,2]},"c":5})";
  const auto error = [&](const std::string& points) {
    return ErrorOfSpace(space, R"({"points":)" + points + "}");
  };
  CHECK(error(R"p([{"lr":99},{"net":{"n":16.0}},{"net/n":3},{"kind":"c"},{"seed":9},
                   {"c":{"d":1}},{"lr":"py:(64, 32)"},{"other":null}])p")
            .empty());
  CHECK(error(R"([{"lr":1},{"lr":"fast"}])") ==
        "search/random/points/1/lr: must be a number, not \"fast\"");
  CHECK(error(R"([{"lr":{"a":1}}])") ==
        R"(search/random/points/0/lr: must be a number, not {"a":1})");
  CHECK(error(R"([{"lr":null}])") == "search/random/points/0/lr: must be a number, not null");
  CHECK(error(R"([{"lr":NaN}])").starts_with("search/random/points/0/lr: must be a"));
  CHECK(error(R"([{"net":{"n":1.5}}])") ==
        "search/random/points/0/net/n: must be a whole number, not 1.5");
  CHECK(error(R"([{"net/n":true}])") ==
        "search/random/points/0/net/n: must be a whole number, not true");
}

TEST_CASE("spec: a point has the numbers of one of the branches that share a name") {
  const std::string space = R"({"net":{"choice":[{"of":"a","w":{"randint":[1,9]}},
                                                 {"of":"b","w":{"uniform":[0,1]}}]}})";
  const auto error = [&](const std::string& point) {
    return ErrorOfSpace(space, R"({"points":[)" + point + "]}");
  };
  CHECK(error(R"({"net":{"of":"b","w":0.5}})").empty());
  CHECK(error(R"({"net":{"of":"a","w":3}})").empty());
  CHECK(
      error(R"({"net":{"of":"a","w":"3"}})").starts_with("search/random/points/0/net/w: must be"));
}

TEST_CASE("spec: a known result whose number is none is refused, and names the number") {
  const auto error = [](const std::string& config) {
    const std::string text =
        R"({"experiment":"e","command":["x"],"metric":"m","search":{"tpe":
        {"evaluated":[{"config":{"n":2,"lr":0.5},"value":1},{"config":)" +
        config + R"(,"value":2}]}},"space":{"n":{"randint":[1,9]},"lr":{"uniform":[0,1]}}})";
    const absl::Status status = ParseExperimentSpec(*Json::Parse(text)).status();
    return status.ok() ? "" : MessageOf(status);
  };
  CHECK(error(R"({"n":2.0,"lr":7})").empty());  // Outside the range: a warning elsewhere.
  CHECK(error(R"({"n":2.5,"lr":0.5})") ==
        "search/tpe/evaluated/1/config/n: must be a whole number, not 2.5");
  CHECK(error(R"({"n":2,"lr":"0.5"})") ==
        R"(search/tpe/evaluated/1/config/lr: must be a number, not "0.5")");
}

TEST_CASE("spec: a condition that nothing meets is refused") {
  const auto error = [](const std::string& condition) {
    return ErrorOfSpace(R"({"n":{"randint":[1,9]},"r":{"randn":[0,1]},"x":{"uniform":[0,1],"if":)" +
                        condition + "}}");
  };
  CHECK(error(R"({"n":{">=":2,"<=":2}})").empty());
  CHECK(error(R"({"n":8})").empty());
  CHECK(error(R"({"r":{">=":99}})").empty());
  const std::string never = "space/x: never exists: its condition is not met by any value of ";
  CHECK(error(R"({"n":{">=":5,"<=":2}})") == never + "'n'");
  CHECK(error(R"({"n":{">=":9}})") == never + "'n'");  // 9 is excluded.
  CHECK(error(R"({"r":{">=":1,"<=":0}})") == never + "'r'");
}

TEST_CASE("spec: the name of an experiment is one line of text") {
  for (const char* name : {R"(a\nb)", R"(\u0007)", R"(a\u007f)"}) {
    const std::string text = std::string(R"({"experiment":")") + name + R"(","command":["x"]})";
    CHECK(MessageOf(ParseExperimentSpec(*Json::Parse(text)).status()) ==
          "experiment: must not contain line breaks or other control characters");
  }
}

TEST_CASE("spec: a whole number that a range cannot have is refused, with what it can have") {
  for (const char* domain : {R"({"randint":[0,4611686018427387904]})", R"({"randint":[0.5,3]})"})
    CHECK(ErrorOfDomain(domain).ends_with("must be a whole number between -9e15 and 9e15"));
  CHECK(ErrorOfDomain(R"({"uniform":[0,"1"]})") ==
        "space/x: uniform: argument 2 must be a finite number");
}

TEST_CASE("spec: a search that learns refuses a point outside a range, and names both") {
  const std::string space = R"({"lr":{"loguniform":[0.001,1]},"net":{"n":{"randint":[1,9]}},
      "noise":{"randn":[0,1]},"kind":{"choice":["a","b"]}})";
  const auto spec_of = [&](const std::string& search, const std::string& points) {
    return R"({"experiment":"e","command":["x"],"metric":"m","search":{")" + search +
           R"(":{"points":)" + points + R"(}},"space":)" + space + "}";
  };
  const auto status_of = [&](const std::string& search, const std::string& points) {
    return ParseExperimentSpec(*Json::Parse(spec_of(search, points))).status();
  };
  for (const char* search : {"tpe", "gp", "cmaes", "bohb", "mobster", "dehb", "auto"}) {
    INFO(search);
    const absl::Status refused = status_of(search, R"([{"lr":1},{"lr":2}])");
    const std::string path = "search/" + std::string(search) + "/points/1/lr";
    CHECK(MessageOf(refused) == path + ": 2 lies outside the range of space/lr, from 0.001 to 1");
    CHECK(SpecPathOf(refused) == path);
    CHECK(status_of(search, R"([{"lr":0.001},{"lr":1.0000000001,"noise":99},{"kind":"c"}])").ok());
  }
  CHECK(MessageOf(status_of("tpe", R"([{"net/n":9}])")) ==
        "search/tpe/points/0/net/n: 9 lies outside the range of space/net/n, from 1 to 8");
  // What was searched by an earlier release goes on.
  const auto reading = ReadJournalledExperiment({.text = spec_of("tpe", R"([{"lr":2}])")});
  CHECK(reading.warnings.empty());
  CHECK(PointsOf(reading.spec).size() == 1);
}

TEST_CASE("spec: a scheduler that would make too many rungs is refused, not cut") {
  const auto spec_of = [&](const std::string& scheduler) {
    return R"({"experiment":"e","command":["x"],"metric":"m","scheduler":{)" + scheduler + "}}";
  };
  for (const char* name : {"asha", "asha_promotion", "pasha"}) {
    INFO(name);
    const std::string scheduler =
        "\"" + std::string(name) + R"(":{"max_t":1000,"reduction_factor":)";
    const absl::Status refused =
        ParseExperimentSpec(*Json::Parse(spec_of(scheduler + "1.0001}"))).status();
    const std::string path = "scheduler/" + std::string(name) + "/reduction_factor";
    CHECK(MessageOf(refused) == path +
                                    ": 1.0001 makes more than 4096 rungs between "
                                    "grace_period 1 and max_t 1000");
    CHECK(HintOf(refused) == "at least 1.0017 is needed; usual values are 2 to 4");
    CHECK(ParseExperimentSpec(*Json::Parse(spec_of(scheduler + "1.0017}"))).ok());
    const auto reading = ReadJournalledExperiment({.text = spec_of(scheduler + "1.0001}")});
    CHECK(reading.warnings.empty());
    CHECK(reading.spec.scheduler.options.GetDouble("reduction_factor") == 1.0001);
  }
}

TEST_CASE("journalled spec: a range that is refused today is drawn from as it was") {
  const auto reading = ReadJournalledExperiment(
      {.text = R"({"experiment":"e","command":["x"],"space":{"x":{"quniform":[0,1,1e-20]}}})"});
  CHECK(reading.warnings.empty());
  CHECK(!reading.closed);
  CHECK(reading.spec.space.variables.size() == 1);
}
