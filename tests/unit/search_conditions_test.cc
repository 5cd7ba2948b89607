// Parameters that only some configurations have, for every search algorithm.
#include <catch2/catch.hpp>
#include <set>

#include "common/algorithms/ask_tell.h"
#include "common/base/status.h"
#include "common/search/basic.h"
#include "common/search/encoding.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {
constexpr char kOptimizers[] = R"({
  "optimizer": {"choice": ["sgd", "adam", "rmsprop"]},
  "lr": {"loguniform": [1e-4, 1]},
  "momentum": {"uniform": [0, 1], "if": {"optimizer": ["sgd", "rmsprop"]}},
  "nesterov": {"choice": [true, false], "if": {"momentum": {">=": 0.5}}},
  "adam": {"if": {"optimizer": "adam"}, "amsgrad": false, "beta": {"uniform": [0.8, 1]}}})";
constexpr char kNets[] = R"({
  "net": {"choice": [{"kind": "mlp", "width": {"qrandint": [8, 64, 8]},
                      "act": {"choice": ["a", "b"]}},
                     {"kind": "conv", "width": {"randint": [1, 4]}}, {"kind": "linear"}, "none"]},
  "x": {"uniform": [0, 1]}})";

std::string SpaceErrorOf(const std::string& text) {
  const auto space = ParseSpace(*Json::Parse(text), "space");
  return space.ok() ? "" : MessageOf(space.status());
}

ExperimentSpec ConditionalSpecOf(const std::string& space, const std::string& more) {
  auto spec = ParseExperimentSpec(
      *Json::Parse(R"({"experiment":"e","command":["x"],"space":)" + space + more + "}"));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

// A configuration of kOptimizers has what its other parameters ask for, and nothing else.
void CheckOptimizer(const Json& params) {
  INFO(params.Dump());
  const bool is_adam = params.GetString("optimizer") == "adam";
  CHECK((params.Find("adam") != nullptr) == is_adam);
  CHECK((params.Find("momentum") != nullptr) == !is_adam);
  const bool is_high = !is_adam && params.GetDouble("momentum") >= 0.5;
  CHECK((params.Find("nesterov") != nullptr) == is_high);
  if (!is_adam) return;
  CHECK(params.Find("adam")->Find("amsgrad")->is_bool());
  CHECK(params.Find("adam")->GetDouble("beta") >= 0.8);
}

void CheckNet(const Json& params) {
  INFO(params.Dump());
  const Json* net = params.Find("net");
  REQUIRE(net != nullptr);
  if (net->is_string()) {
    CHECK(net->AsString() == "none");
    return;
  }
  const std::string kind = net->GetString("kind");
  CHECK((net->Find("act") != nullptr) == (kind == "mlp"));
  if (kind == "mlp") CHECK(net->GetInt("width") % 8 == 0);
  else if (kind == "conv") CHECK(net->GetInt("width") < 4);
  else CHECK(net->Find("width") == nullptr);
}
}  // namespace

TEST_CASE("conditions: random search draws only what its other parameters ask for") {
  const ExperimentSpec optimizers = ConditionalSpecOf(kOptimizers, R"(,"num_samples":-1)");
  const ExperimentSpec nets = ConditionalSpecOf(kNets, R"(,"num_samples":-1)");
  std::set<std::string> kinds;
  for (uint64_t number = 0; number < 200; ++number) {
    CheckOptimizer(*SuggestBasic(optimizers, 7, number));
    const Json net = *SuggestBasic(nets, 7, number);
    CheckNet(net);
    kinds.insert(net.Find("net")->is_string() ? "none" : net.Find("net")->GetString("kind"));
  }
  CHECK(kinds.size() == 4);
}

TEST_CASE("conditions: a configuration comes back from its point") {
  for (const bool is_net : {false, true}) {
    const char* text = is_net ? kNets : kOptimizers;
    const auto check = is_net ? CheckNet : CheckOptimizer;
    const ExperimentSpec spec = ConditionalSpecOf(text, R"(,"num_samples":-1)");
    const Encoding encoding = *Encoding::Of(spec.space);
    Rng rng(3, 0);
    for (int i = 0; i < 300; ++i) {
      Point point(encoding.axes().size());
      for (double& each : point) each = rng.Uniform();
      const Point snapped = encoding.Snap(point);
      const Json params = encoding.Decode(snapped);
      CHECK(encoding.Decode(point) == params);
      check(params);
      const auto again = encoding.Encode(params);
      REQUIRE(again.has_value());
      for (size_t k = 0; k < snapped.size(); ++k) CHECK((*again)[k] == Approx(snapped[k]));
    }
  }
}

TEST_CASE("conditions: every model searches a conditional space, and finds its best branch") {
  for (const char* search : {"tpe", "gp", "cmaes", "auto", "bohb", "dehb", "mobster"}) {
    INFO(search);
    const ExperimentSpec spec = ConditionalSpecOf(
        kOptimizers, std::string(R"(,"num_samples":60,"metric":"loss","mode":"min","search":")") +
                         search + "\"");
    AskTell asked(spec, 5);
    int good = 0;
    while (const auto trial = asked.Ask()) {
      CHECK(trial->fallback == "");
      const Json params = *Json::Parse(trial->params);
      CheckOptimizer(params);
      const Json* adam = params.Find("adam");
      double loss = 3 - params.GetDouble("momentum");
      if (adam != nullptr) loss = 10 * std::abs(adam->GetDouble("beta") - 0.9);
      if (adam != nullptr && trial->number >= 40) ++good;
      REQUIRE(asked.Tell(trial->number, {TrialResult::Kind::kValue, loss}).ok());
    }
    CHECK(good >= 12);
  }
}

TEST_CASE("conditions: a discrete conditional space is searched to its end without a repetition") {
  const std::string space = R"({"a":{"choice":["x","y"]},
      "b":{"randint":[0,5],"if":{"a":"x"}},"c":{"choice":["u","v","w"],"if":{"a":"y"}}})";
  const ExperimentSpec spec =
      ConditionalSpecOf(space, R"(,"num_samples":8,"metric":"m","mode":"max","search":"tpe")");
  AskTell asked(spec, 1);
  std::set<std::string> seen;
  while (const auto trial = asked.Ask()) {
    CHECK(seen.insert(trial->params).second);
    const double value = static_cast<double>(trial->number);
    REQUIRE(asked.Tell(trial->number, {TrialResult::Kind::kValue, value}).ok());
  }
  CHECK(seen.size() == 8);  // 5 and 3.
}

TEST_CASE("conditions: a given point decides what exists") {
  for (const char* search : {"basic", "tpe"}) {
    const ExperimentSpec spec = ConditionalSpecOf(
        kOptimizers, std::string(R"(,"metric":"m","mode":"min","num_samples":2,"search":{")") +
                         search + R"(":{"points":[{"optimizer":"adam"},
                                            {"optimizer":"sgd","momentum":0.75}]}})");
    AskTell asked(spec, 11);
    const Json adam = *Json::Parse(asked.Ask()->params), sgd = *Json::Parse(asked.Ask()->params);
    CheckOptimizer(adam);
    CheckOptimizer(sgd);
    CHECK(adam.GetString("optimizer") == "adam");
    CHECK(sgd.GetDouble("momentum") == 0.75);
    CHECK(sgd.Find("nesterov") != nullptr);
  }
  const ExperimentSpec nets = ConditionalSpecOf(
      kNets, R"(,"search":{"basic":{"points":[{"net":{"kind":"conv","width":3}}]}})");
  const Json net = *SuggestBasic(nets, 2, 0);
  CHECK(net.Find("net")->Dump() == R"({"kind":"conv","width":3})");
}

TEST_CASE("conditions: a journalled space draws the same") {
  for (const char* text : {kOptimizers, kNets}) {
    const ExperimentSpec spec = ConditionalSpecOf(text, R"(,"num_samples":-1)");
    const std::string normal = NormalText(spec);
    const auto read = ReadJournalledExperiment({"", normal, kSpecFormat});
    CHECK(read.warnings.empty());
    CHECK_FALSE(read.closed);
    CHECK(NormalText(read.spec) == normal);
    for (uint64_t number = 0; number < 50; ++number)
      CHECK(SuggestBasic(read.spec, 9, number)->Dump() == SuggestBasic(spec, 9, number)->Dump());
  }
}

TEST_CASE("conditions: what cannot hold is refused, with its place") {
  const auto with = [](const std::string& condition) {
    return SpaceErrorOf(R"({"a":{"choice":["x","y"]},"n":{"randint":[1,5]},"k":3,
                       "b":{"uniform":[0,1],"if":)" +
                        condition + "}}");
  };
  CHECK(with(R"({"a":"x"})") == "");
  CHECK(with(R"({"n":{">=":2,"<=":3},"a":["x","y"]})") == "");
  CHECK(with(R"({"a":"z"})") == "space/b/if/a: 'a' is never \"z\"");
  CHECK(with(R"({"aa":"x"})") == "space/b/if/aa: no parameter that varies is called 'aa'");
  CHECK(with(R"({"k":3})") == "space/b/if/k: no parameter that varies is called 'k'");
  CHECK(with(R"({"n":9})") == "space/b/if/n: 'n' never lies there");
  CHECK(with(R"({"n":"x"})") == "space/b/if/n: must be a number, or bounds such as {\">=\": 2}");
  CHECK(with("{}") == "space/b/if: names no parameter");
  CHECK(with(R"({"b":0.5})") == "space/b/if/b: 'b' depends on itself");
  CHECK(SpaceErrorOf(
            R"({"a":{"choice":["x"],"if":{"b":"y"}},"b":{"choice":["y"],"if":{"a":"x"}}})") ==
        "space/a/if/b: 'a' depends on itself");
  const auto hint = [](const std::string& space) {
    return HintOf(ParseSpace(*Json::Parse(space), "space").status());
  };
  CHECK(hint(R"({"k":3,"b":{"uniform":[0,1],"if":{"k":3}}})") ==
        "it is a constant: leave the condition out");
  CHECK(hint(R"({"m":{"k":{"choice":[1,2]}},"b":{"uniform":[0,1],"if":{"m":1}}})") ==
        "it is a map: name a parameter in it, such as m/k");
  CHECK(SpaceErrorOf(R"({"a":{"choice":["x"]},"l":[{"uniform":[0,1],"if":{"a":"x"}}]})") ==
        "space/l/0/if: an item of a list cannot be left out");
  CHECK(SpaceErrorOf(R"({"a":{"choice":["x"]},"g":{"grid":[1,2],"if":{"a":"x"}}})") ==
        "space/g: a grid cannot depend on another parameter");
  CHECK(SpaceErrorOf(R"({"net":{"choice":[{"w":{"uniform":[1,0]}}]}})") ==
        "space/net/choice/0/w: the lower bound must be below the upper bound");
  CHECK(SpaceErrorOf(R"({"raw":{"constant":{"if":{"a":1}}}})") == "");
}

TEST_CASE("conditions: an argument about a parameter that is not there is left out") {
  const ExperimentSpec spec = ConditionalSpecOf(kOptimizers, "");
  const auto argv = [&](const char* params) {
    auto words = SubstituteCommand({"x", "--m=${momentum}", "--beta=${adam/beta}", "${lr}"},
                                   *Json::Parse(params), spec.space);
    REQUIRE(words.ok());
    return *words;
  };
  CHECK(argv(R"({"lr":1,"momentum":0.5})") == std::vector<std::string>{"x", "--m=0.5", "1"});
  CHECK(argv(R"({"lr":1,"adam":{"beta":0.9}})") ==
        std::vector<std::string>{"x", "--beta=0.9", "1"});
  CHECK_FALSE(SubstituteCommand({"x", "${beta}"}, *Json::Parse(R"({"lr":1})"), spec.space).ok());
  CHECK_FALSE(SubstituteCommand({"${momentum}"}, *Json::Parse(R"({"lr":1})"), spec.space).ok());
}
