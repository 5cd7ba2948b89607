#include <catch2/catch.hpp>
#include <ctime>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/gpu_type.h"
#include "common/spec/journalled_spec.h"

using namespace rt;

namespace {
absl::Status ErrorOf(const char* text) {
  auto json = Json::Parse(text);
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json).status();
}
ExperimentSpec SpecOf(const char* text) {
  auto spec = ParseExperimentSpec(*Json::Parse(text));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}
}  // namespace

TEST_CASE("spec: a small experiment gets the defaults") {
  ExperimentSpec spec = SpecOf(R"({"experiment":"e","command":["x","${lr}"],
      "space":{"lr":{"grid":[1,2]},"w":{"uniform":[0,1]}},"num_samples":3})");
  CHECK(spec.TrialsTotal() == 6);
  CHECK(spec.resources.one().cpu == kUnit);
  CHECK(spec.space.variables.size() == 2);
}

TEST_CASE("spec: mistakes name their path and say what to do") {
  auto check = [](const char* text, const char* path, const char* message, const char* hint = "") {
    absl::Status status = ErrorOf(text);
    INFO(status.ToString());
    REQUIRE(!status.ok());
    CHECK(SpecPathOf(status) == path);
    CHECK(MessageOf(status).find(message) != std::string::npos);
    CHECK(HintOf(status).find(hint) != std::string::npos);
  };
  check(R"x({"experiment":"e","command":["x"],"report_regex":"loss=(.*"})x", "report_regex",
        "not a regular expression");
  check(R"({"experiment":"e","command":["x"],"metric":"m","report_regex":"loss=.*"})",
        "report_regex", "0 groups", "one group");
  check(R"x({"experiment":"e","command":["x"],"report_regex":"loss=(.*)"})x", "report_regex",
        "is not given", "add 'metric'");
  check(R"({"experiment":"e","command":["x"],"num_sampels":3})", "num_sampels", "unknown key",
        "did you mean 'num_samples'?");
  check(R"({"experiment":"e"})", "command", "missing");
  check(R"({"experiment":"e","command":"x y"})", "command", "must be a list");
  check(R"({"experiment":"e","command":["x","${lt}"],"space":{"lr":1}})", "command/1",
        "no parameter is called 'lt'", "did you mean 'lr'?");
  check(R"({"experiment":"e","command":["x"],"space":{"lr":{"loguniform":[0,1]}}})", "space/lr",
        "lower bound above 0");
  check(R"({"experiment":"e","command":["x"],"space":{"q":{"quniform":[1,33,4]}}})", "space/q",
        "multiples of q");
  check(R"({"experiment":"e","command":["x"],"env":{"RT_TOKEN":"1"}})", "env/RT_TOKEN",
        "is not a name that may be set");
  check(R"({"experiment":"e","command":["x"],"inputs":[{"manifest":"m","env":"RT_TOKEN"}]})",
        "inputs/0/env", "is not a name that may be set", "RT_");
  check(R"({"experiment":"e","command":["x"],"inputs":[{"manifest":"m","env":"RT_TRAINABLE"},
        {"manifest":"m","env":"A=B"}]})",
        "inputs/1/env", "is not a name that may be set");
  check(R"({"experiment":"e","command":["x"],"resources":{"gpu":1.5}})", "resources/gpu",
        "whole number");
  check(R"({"experiment":"e","command":["x"],"resources":{"bundles":[]}})", "resources/bundles",
        "must be a list");
  check(R"({"experiment":"e","command":["x"],"resources":{"bundles":[{"cpu":-1}]}})",
        "resources/bundles/0/cpu", "between 0");
  check(R"({"experiment":"e","command":["x"],"resources":{"cpu":1,"bundles":[{"cpu":1}]}})",
        "resources/cpu", "cannot be given together with 'bundles'", "into the bundles");
  check(R"({"experiment":"e","command":["x"],"resources":{"bundles":[{"cpu":1}],"ranks":2}})",
        "resources/ranks", "the number of bundles, which is 1");
  check(R"({"experiment":"e","command":["x"],"resources":{"cpu":1,"strategy":"HEAP"}})",
        "resources/strategy", "STRICT_SPREAD");
  check(R"({"experiment":"e","command":["x"],"resources":{"gpu":1,"gpu_sharing":"x"}})",
        "resources/gpu_sharing", "'pack' or 'spread'");
  check(R"({"experiment":"e","command":["x"],"scheduler":{"asha":{}}})", "scheduler", "metric");
  check(R"({"experiment":"e","command":["x"],"metric":"m","scheduler":{"asha":{"max_t":0}}})",
        "scheduler/asha/max_t", "above 0");
  check(R"({"experiment":"e","command":["x"],"metric":"m","scheduler":{"asha":{"max_t":2,
        "grace_period":3}}})",
        "scheduler/asha/max_t", "must not be below grace_period");
  check(R"({"experiment":"e","command":["x"],"metric":"m","scheduler":{"asha":{"brackets":1.5}}})",
        "scheduler/asha/brackets", "must be a whole number between 1 and 64");
  check(R"({"experiment":"e","command":["x"],"metric":"m","scheduler":{"asha":{"maxt":5}}})",
        "scheduler/asha/maxt", "unknown key 'maxt'", "did you mean 'max_t'?");
  check(R"({"experiment":"e","command":["x"],"scheduler":"ahsa"})", "scheduler",
        "unknown scheduler 'ahsa'",
        "did you mean 'asha'? known: asha, asha_promotion, fifo, hyperband, median_stopping, "
        "pasha, pb2, pbt, pbt_replay, percentile_stopping");
  check(R"({"experiment":"e","command":["x"],"search":{"tpr":{}}})", "search/tpr",
        "unknown search algorithm 'tpr'",
        "known: auto, basic, bohb, cmaes, dehb, gp, mobster, tpe");
  check(R"({"experiment":"e","command":["x"],"search":{"basic":{"points":[1]}}})",
        "search/basic/points", "a point must be a map");
  check(R"({"experiment":"a/b","command":["x"]})", "experiment", "'/'");
  check(R"({"experiment":"e","command":["x"],"num_samples":"3"})", "num_samples", "whole number");
}

TEST_CASE("spec: the type of a gpu is one word of its name") {
  const std::pair<const char*, const char*> names[] = {
      {"NVIDIA H100 80GB HBM3", "H100"},
      {"NVIDIA H100 PCIe", "H100"},
      {"NVIDIA GH200 480GB", "GH200"},
      {"NVIDIA A100-SXM4-40GB", "A100"},
      {"Tesla V100-SXM2-16GB", "V100"},
      {"Tesla T4", "T4"},
      {"NVIDIA L40S", "L40S"},
      {"NVIDIA GeForce RTX 3090", "RTX3090"},
      {"NVIDIA GeForce GTX 1080 Ti", "GTX1080"},
      {"NVIDIA RTX A6000", "A6000"},
      {"NVIDIA RTX 6000 Ada Generation", "RTX6000"},
      {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100-MIG"},
      {"h100", "H100"},
      {"rtx3090", "RTX3090"},
      {"gpu", ""},
      {"", ""}};
  for (const auto& [name, type] : names) CHECK(GpuTypeOf(name) == type);
}

TEST_CASE("spec: a request for one of several types of gpus has an alternative for each") {
  const auto parse = [](const char* text) {
    return ParseResourceRequest(*Json::Parse(text), "resources").value();
  };
  const ResourceRequest any = parse(R"({"cpu":1,"gpu":1})");
  CHECK(any.Alternatives() == std::vector<ResourceRequest>{any});
  const ResourceRequest some = parse(R"({"cpu":1,"gpu":1,"gpu_type":["h200","NVIDIA H100"]})");
  CHECK(some.gpu_types == std::vector<std::string>{"H200", "H100"});
  CHECK(Describe(some) == "1 cpu, 1 gpu of type H200 or H100");
  const std::vector<ResourceRequest> each = some.Alternatives();
  REQUIRE(each.size() == 2);
  CHECK(each[0].one().custom == std::map<std::string, int64_t>{{"accelerator_type:H200", 1}});
  CHECK(each[1].gpu_types.empty());
  for (const char* wrong : {R"({"gpu":1,"gpu_type":"fast"})", R"({"gpu":1,"gpu_type":[]})"}) {
    const absl::Status status = ParseResourceRequest(*Json::Parse(wrong), "resources").status();
    CHECK(MessageOf(status).find("resources/gpu_type: must be the type of a gpu") == 0);
    CHECK(HintOf(status).find("[H200, H100]") != std::string::npos);
  }
  const Json no_gpu = *Json::Parse(R"({"gpu_type":"H100"})");
  const absl::Status idle = ParseResourceRequest(no_gpu, "r").status();
  CHECK(MessageOf(idle) == "r/gpu_type: is for requests that have gpus");
  const ResourceRequest mixed =
      parse(R"({"bundles":[{"gpu":1},{"cpu":1}],"ranks":1,"gpu_type":"T4"})");
  CHECK(mixed.Alternatives()[0].bundles[1].custom.empty());
}

TEST_CASE("spec: several ranks and bundles") {
  auto asks = [](const std::string& resources) {
    return SpecOf((R"({"experiment":"e","command":["x"],"resources":)" + resources + "}").c_str())
        .resources;
  };
  CHECK(asks(R"({"cpu":2})").bundles.size() == 1);
  const ResourceRequest ranks = asks(R"({"cpu":1,"gpu":1,"ranks":4,"strategy":"spread"})");
  CHECK((ranks.ranks == 4 && ranks.bundles.size() == 4 && ranks.strategy == Strategy::kSpread));
  CHECK(ranks.Total().gpu == 4 * kUnit);
  CHECK(Describe(ranks) == "4 bundles of 1 cpu, 1 gpu (SPREAD)");
  const ResourceRequest mixed = asks(R"({"bundles":[{"CPU":1},{"GPU":1}],"ranks":1})");
  CHECK((mixed.ranks == 1 && mixed.bundles[1].gpu == kUnit));
  CHECK(Describe(mixed) == "2 bundles of 1 cpu; 1 gpu (PACK)");
  CHECK(ToJson(mixed).GetInt("ranks") == 1);
}

TEST_CASE("spec: so many ranks on each node") {
  auto parse = [](const char* text) { return ParseResourceRequest(*Json::Parse(text), "r"); };
  const ResourceRequest two = *parse(R"({"cpu":1,"ranks":4,"ranks_per_node":2})");
  CHECK((two.ranks == 4 && two.ranks_per_node == 2));
  CHECK(Describe(two) == "4 bundles of 1 cpu (2 on each node)");
  CHECK(ToJson(two).GetInt("ranks_per_node") == 2);
  CHECK(MessageOf(parse(R"({"ranks":4,"ranks_per_node":3})").status()) ==
        "r/ranks_per_node: must divide the number of ranks, which is 4");
  CHECK(MessageOf(parse(R"({"ranks":4,"ranks_per_node":5})").status()) ==
        "r/ranks_per_node: must be a whole number between 1 and 4");
  CHECK(MessageOf(parse(R"({"ranks":4,"ranks_per_node":2,"strategy":"PACK"})").status()) ==
        "r/ranks_per_node: cannot be combined with 'strategy'");
}

TEST_CASE("spec: a stop rule follows the mode of the metric") {
  ExperimentSpec spec = SpecOf(R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min",
      "stop":{"loss":0.1,"training_iteration":5,"acc":{"<=":0.5}}})");
  Json row = *Json::Parse(R"({"loss":0.2,"acc":0.9})");
  CHECK(MetRule(spec.stop, {row, 4, 0}) == nullptr);
  CHECK(MetRule(spec.stop, {row, 5, 0})->key == "training_iteration");
  Json low = *Json::Parse(R"({"loss":0.1})");
  CHECK(MetRule(spec.stop, {low, 1, 0})->key == "loss");
}

TEST_CASE("spec: parameters are substituted into arguments, whole and in part") {
  Json params = *Json::Parse(R"({"lr":0.1,"net":{"w":64},"s":"a b$"})");
  auto argv = SubstituteCommand({"x", "${lr}", "--w=${net/w}", "${s}"}, params);
  REQUIRE(argv.ok());
  CHECK(*argv == std::vector<std::string>{"x", "0.1", "--w=64", "a b$"});
}

TEST_CASE("spec: a command that grows beyond 1 MiB with its parameters is refused, and soon") {
  const std::string value(60'000, 'x');
  const Json params = Json::MakeObject({{"a", value}, {"b", 1}});
  CHECK(SubstituteCommand({"x", "${a}${a}"}, params)->at(1).size() == 120'000);
  std::string one, many;
  for (int i = 0; i < 200'000; ++i) one += "${a}";
  const absl::Status refused = SubstituteCommand({"x", one}, params).status();
  CHECK(MessageOf(refused) == "command: is longer than 1 MiB once its parameters are filled in");
  CHECK_FALSE(SubstituteCommand(std::vector<std::string>(18, "${a}"), params).ok());
  CHECK(SubstituteCommand(std::vector<std::string>(17, "${a}"), params).ok());
  CHECK_FALSE(SubstituteCommand({"x", std::string(limits::kArgvBytesMax, 'x')}, params).ok());
  CHECK(MessageOf(SubstituteCommand({"x", "${c}"}, params).status()) ==
        "command/1: no parameter is called 'c'");
  CHECK_FALSE(SubstituteCommand({"x", "${a"}, params).ok());
}

TEST_CASE("spec: a parameter that a command names very often is looked up once") {
  Json::Object keys;
  for (int i = 0; i < 1'000; ++i) keys.emplace_back("layer_" + std::to_string(i), i);
  const Json params((Json::Object(keys)));
  std::string part;
  for (int i = 0; i < 70'000; ++i) part += "${layer_999}";
  const std::clock_t before = std::clock();  // Of this process: other load does not count.
  CHECK(SubstituteCommand({"x", part}, params)->at(1).size() == 210'000);
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 0.2);
}

TEST_CASE("resources: fractions are exact and shortages are named") {
  auto wanted = ParseResourcesFlag("cpu=2,gpu=1,memory=8GiB,tpu=1");
  REQUIRE(wanted.ok());
  CHECK(Describe(*wanted) == "2 cpus, 1 gpu, 8 GiB memory, 1 tpu");
  auto free = ParseResourcesFlag("cpu=1,memory=16GiB");
  CHECK(!wanted->Fits(*free));
  CHECK(DescribeShortage(*wanted, *free, *ParseResourcesFlag("cpu=4,gpu=2")) ==
        "1 of 4 cpu free, 0 of 2 gpu free, 0 of 0 tpu free");
  CHECK(DescribeShortage(*ParseResourcesFlag("cpu=2"), *free, *free) == "1 of 1 free");
  CHECK(ParseResourcesFlag("cpu=1")->Fits(Resources{.cpu = kUnit, .gpu = -kUnit}));
  CHECK(!ParseResourcesFlag("cpu=1,gpu=1")->Fits(Resources{.cpu = kUnit, .gpu = -kUnit}));
  CHECK(!ParseResourcesFlag("cpu").ok());
  CHECK(!ParseResourcesFlag("cpu=-1").ok());
}

TEST_CASE("resources: the flag takes any name, and its errors speak of the flag") {
  auto own = ParseResourcesFlag("cpu=2,custom=1,fpga=2");
  REQUIRE(own.ok());
  CHECK(own->custom.at("custom") == kUnit);
  CHECK(own->custom.at("fpga") == 2 * kUnit);
  const absl::Status much = ParseResourcesFlag("cpu=2,fpga=many").status();
  CHECK(MessageOf(much) == "resources: fpga=many: must be a number");
  CHECK(MessageOf(ParseResourcesFlag("cpu=1,CPU=2").status()) == "resources: 'CPU' is there twice");
  CHECK(MessageOf(ParseResourcesFlag("=2").status()) ==
        "resources: '=2' is not of the form NAME=AMOUNT");
}

TEST_CASE("resources: a mistyped key whose value is not a number names the key that was meant") {
  const auto refusal = [](const char* text) {
    return ParseResourceRequest(*Json::Parse(text), "resources").status();
  };
  const absl::Status type = refusal(R"({"gpu":1,"gpu_typ":"H100"})");
  CHECK(MessageOf(type) == "resources/gpu_typ: must be a number, because it is a custom resource");
  CHECK(HintOf(type) == "did you mean 'gpu_type'?");
  CHECK(SpecPathOf(type) == "resources/gpu_typ");
  CHECK(HintOf(refusal(R"({"startegy":"PACK"})")) == "did you mean 'strategy'?");
  CHECK(HintOf(refusal(R"({"rank":[1,4]})")) == "did you mean 'ranks'?");
  const absl::Status own = refusal(R"({"fpga":"many"})");
  CHECK(MessageOf(own) == "resources/fpga: must be a number");
  CHECK(HintOf(own).empty());
  CHECK(HintOf(refusal(R"({"gpu":"one"})")).empty());
}

TEST_CASE("spec: a user's space and names are bounded; the journal's are read as they are") {
  Json space = Json::MakeObject();
  for (int i = 0; i < 1'001; ++i)
    space.Set("v" + std::to_string(i), Json::MakeObject({{"uniform", *Json::Parse("[0,1]")}}));
  Json json = *Json::Parse(R"({"experiment":"e","command":["x"]})");
  json.Set("space", space);
  CHECK(SpecPathOf(ParseExperimentSpec(json).status()) == "space");
  CHECK(MessageOf(ParseExperimentSpec(json).status()).find("1001 variables") != std::string::npos);
  const auto reading = ReadJournalledExperiment({.text = json.Dump()});
  CHECK(!reading.closed);
  CHECK(reading.warnings.empty());
  CHECK(reading.spec.space.variables.size() == 1'001);
  space.Erase("v0");
  json.Set("space", space);
  CHECK(ParseExperimentSpec(json).ok());
  for (const char* key : {"experiment", "trainable"}) {
    json.Set(key, std::string(200, 'n'));
    CHECK(ParseExperimentSpec(json).ok());
    json.Set(key, std::string(201, 'n'));
    CHECK(SpecPathOf(ParseExperimentSpec(json).status()) == key);
    CHECK(ReadJournalledExperiment({.text = json.Dump()}).warnings.empty());
    json.Set(key, std::string(300, 'n'));
    CHECK(MessageOf(ParseExperimentSpec(json).status()) ==
          std::string(key) + ": is longer than 200 bytes: folders of its trials begin with it");
    json.Set(key, "e");
  }
}
