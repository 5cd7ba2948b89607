#include <catch2/catch.hpp>

#include "cli/render/man.h"
#include "cli/render/plan.h"
#include "tests/unit/cli_text.h"

using namespace rt;

namespace {
ExperimentSpec SpecOf(const char* text) {
  auto spec = ParseExperimentSpec(*Json::Parse(text));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}
}  // namespace

TEST_CASE("plan: rungs say how many trials would reach them") {
  ExperimentSpec spec = SpecOf(R"({"experiment":"e","command":["x"],"num_samples":27,
      "metric":"m","space":{"a":{"grid":[1,2,3]}},"resources":{"cpu":2},
      "scheduler":{"asha":{"max_t":81,"grace_period":1,"reduction_factor":3}}})");
  auto nodes = Json::Parse(R"([
      {"name":"a","state":"READY","resources_total":{"cpu":5,"gpu":0,"memory_bytes":1}},
      {"name":"b","state":"READY","resources_total":{"cpu":1}},
      {"name":"c","state":"LOST","resources_total":{"cpu":64}}])");
  Json plan = PlanExperiment(spec, *nodes);
  CHECK(plan.GetInt("trials") == 81);
  CHECK(plan.GetInt("side_by_side") == 2);
  CHECK(plan.Find("brackets")->array()[0].Find("rungs")->Dump() ==
        R"([{"milestone":1,"trials":81},{"milestone":3,"trials":27},{"milestone":9,"trials":9},)"
        R"({"milestone":27,"trials":3},{"milestone":81,"trials":1}])");
  std::string text = RenderPlan(plan);
  CHECK(Has(text, "trials        81 (3 grid points, num_samples 27)"));
  CHECK(Has(text, "side by side  2 (a: 2, b: 0)"));
  CHECK(Has(text, "search        basic: points 0, constant_grid_search false\n"));
  CHECK(Has(text,
            "scheduler     asha: time_attr training_iteration, max_t 81, grace_period 1, "
            "reduction_factor 3, brackets 1, stop_last_trials true, rank_check false\n"));
  CHECK(Has(text, "nothing was started"));
  CHECK(Has(RenderPlan(PlanExperiment(spec, Json())),
            "no cluster selected, so placement is unknown"));
}

TEST_CASE("plan: what the search improves and has to keep is shown") {
  const char* start = R"({"experiment":"e","command":["x"],"search":"tpe",)";
  const auto plan_of = [&](const std::string& rest) {
    return PlanExperiment(SpecOf((start + rest + "}").c_str()), Json());
  };
  Json plan = plan_of(R"("metric":"loss","mode":"min")");
  CHECK(Has(RenderPlan(plan), "metric        loss (min)\n"));
  CHECK(plan.GetString("metric") == "loss");
  CHECK(plan.GetString("mode") == "min");
  CHECK(plan.Find("objectives")->is_null());
  CHECK(plan.Find("constraints")->is_null());
  plan = plan_of(R"("metric":["loss","acc"],"mode":["min","max"],
                    "constraints":{"mem":{"<=":512.0},"speed":{">=":0.5}})");
  CHECK(Has(RenderPlan(plan),
            "objectives    loss (min), acc (max)\n"
            "constraints   mem <= 512, speed >= 0.5\n"));
  CHECK(plan.Find("objectives")->Dump() ==
        R"([{"metric":"loss","mode":"min"},{"metric":"acc","mode":"max"}])");
  CHECK(plan.Find("constraints")->Dump() == R"({"mem":{"<=":512.0},"speed":{">=":0.5}})");
}

TEST_CASE("plan: the kinds of machines of a cluster in a cloud are shown, and its setup") {
  const auto spec = LoadCluster(
      *ParseYaml("cluster_name: c\nprovider: {type: aws, region: eu-west-1}\nmax_workers: 3\n"
                 "head_node: {InstanceType: m5.large}\nworker_nodes:\n  InstanceType: p3.2xlarge\n"
                 "  ImageId: ami-1\n  InstanceMarketOptions: {SpotOptions: {MaxPrice: 1.5}}\n"
                 "setup_commands: [pip install x]\n"
                 "file_mounts: {/data: ./d}\n",
                 "c.yaml"));
  REQUIRE(spec.ok());
  const std::string text = RenderPlan(PlanCluster(*spec, 8));
  CHECK(Has(text, "cluster       c (provider aws, eu-west-1)"));
  CHECK(Has(text, "head    the head  m5.large    -      on demand"));
  CHECK(Has(text, "worker  0 to 3    p3.2xlarge  ami-1  spot, at most 1.5 per hour"));
  CHECK(Has(text, "setup         pip install x"));
  CHECK(Has(text, "file mount    ./d -> /data"));
}

TEST_CASE("plan: machines with prices have a cost, and one without makes it unknown") {
  const std::string file =
      "cluster_name: c\nprovider: {type: aws, region: eu-west-1}\nmax_workers: 3\n"
      "head_node_type: small\navailable_node_types:\n"
      "  small: {node_config: {InstanceType: m5.large}, price_per_hour: 0.1}\n"
      "  old: {node_config: {InstanceType: p4d.24xlarge}, price_per_hour: 20, min_workers: 1,\n"
      "        max_workers: 9}\n"
      "  new: {node_config: {InstanceType: p5.48xlarge}, max_workers: 1";
  const auto priced = LoadCluster(*ParseYaml(file + ", price_per_hour: '55.5'}\n", "c.yaml"));
  INFO(priced.status().ToString());
  REQUIRE(priced.ok());
  const Json plan = PlanCluster(*priced, 8);
  // The head and one old; one more old and the new one beside them.
  CHECK(plan.Find("cost_per_hour")->Dump() == R"({"least":20.1,"most":95.6})");
  const std::string text = RenderPlan(plan);
  CHECK(Has(text, "cost          20.1 to 95.6 an hour, by the prices of the file"));
  CHECK(Has(text, "on demand, 55.5 an hour"));
  CHECK(priced->pools.back().labels == "price_per_hour=55.5");
  const auto unpriced = LoadCluster(*ParseYaml(file + "}\n", "c.yaml"));
  REQUIRE(unpriced.ok());
  CHECK(PlanCluster(*unpriced, 8).Find("cost_per_hour")->is_null());
  const auto wrong = LoadCluster(*ParseYaml(file + ", price_per_hour: cheap}\n", "c.yaml"));
  CHECK(Has(wrong.status().ToString(), "a price is a number of dollars per hour"));
}

TEST_CASE("plan: each gpu type that a trial accepts has its cost, in the order of preference") {
  const ExperimentSpec spec = SpecOf(
      R"({"experiment":"e","command":["x"],"num_samples":1,
          "resources":{"gpu":2,"ranks":2,"gpu_type":["H200","H100","A100","X1"]}})");
  const auto nodes = Json::Parse(R"([
      {"name":"a","state":"READY","labels":{"price_per_hour":"80"},
       "resources_total":{"cpu":64,"gpu":8,"custom":{"accelerator_type:H200":1}}},
      {"name":"b","state":"READY","labels":{"price_per_hour":"50"},
       "resources_total":{"cpu":64,"gpu":8,"custom":{"accelerator_type:H100":1}}},
      {"name":"c","state":"READY","labels":{"price_per_hour":"20"},
       "resources_total":{"cpu":64,"gpu":4,"custom":{"accelerator_type:H100":1}}},
      {"name":"d","state":"LOST","labels":{"price_per_hour":"1"},
       "resources_total":{"cpu":64,"gpu":4,"custom":{"accelerator_type:H100":1}}},
      {"name":"e","state":"READY","labels":{"price_per_hour":"cheap"},
       "resources_total":{"cpu":64,"gpu":4,"custom":{"accelerator_type:A100":1}}}])");
  REQUIRE(nodes.ok());
  const Json plan = PlanExperiment(spec, *nodes);
  CHECK(plan.Find("gpu_type_costs")->array()[1].Dump() ==
        R"({"gpu_type":"H100","cost_per_hour":20.0,"nodes":2})");
  CHECK(Has(RenderPlan(plan),
            "each costs    H200 at 40 an hour, else H100 at 20 an hour, else A100 (its price is "
            "not known), else X1 (no node has it now)\n"));
  CHECK(!Has(RenderPlan(PlanExperiment(SpecOf(R"({"experiment":"e","command":["x"],
      "resources":{"gpu":1}})"),
                                       *nodes)),
             "each costs"));
}

TEST_CASE("plan: trials of several ranks are counted as the head places them") {
  auto nodes = Json::Parse(R"([
      {"name":"a","state":"READY","resources_total":{"cpu":10}},
      {"name":"b","state":"READY","resources_total":{"cpu":6}},
      {"name":"c","state":"READY","resources_total":{"cpu":3,"gpu":2}}])");
  auto plan = [&](const std::string& resources, const std::string& more = "") {
    const std::string text = R"({"experiment":"e","command":["x"],"num_samples":100,)" + more +
                             R"("resources":)" + resources + "}";
    return PlanExperiment(SpecOf(text.c_str()), *nodes);
  };
  Json ranks = plan(R"({"cpu":1,"ranks":8})");
  CHECK(ranks.GetInt("side_by_side") == 2);  // 19 cpus.
  CHECK(Has(ranks.Find("places")->Dump(), R"("node":"a","pool":null,"trials":2,"bundles":10)"));
  CHECK(Has(RenderPlan(ranks), "side by side  2 (a: 10 bundles, b: 6 bundles, c: 0 bundles)"));
  CHECK(plan(R"({"cpu":1,"ranks":8,"strategy":"STRICT_PACK"})").GetInt("side_by_side") == 1);
  CHECK(plan(R"({"cpu":1,"ranks":3,"strategy":"STRICT_SPREAD"})").GetInt("side_by_side") == 3);
  CHECK(plan(R"({"cpu":1,"ranks":4,"strategy":"STRICT_SPREAD"})").GetInt("side_by_side") == 0);
  CHECK(plan(R"({"cpu":1,"ranks":4})").GetInt("side_by_side") == 4);
  CHECK(plan(R"({"cpu":1,"ranks":4})", R"("max_concurrent":3,)").GetInt("side_by_side") == 3);
  CHECK(plan(R"({"bundles":[{"cpu":9},{"cpu":5}]})").GetInt("side_by_side") == 1);
  Json none = plan(R"({"cpu":1,"ranks":20})");
  CHECK(none.GetInt("side_by_side") == 0);
  CHECK(Has(RenderPlan(none), "cannot hold all bundles of one at once"));
  // Shares lie on one device: of two gpus four trials get 0.4, not five.
  CHECK(plan(R"({"cpu":0.1,"gpu":0.4})").GetInt("side_by_side") == 4);
}

TEST_CASE("plan: an unlimited search without early stopping has no rungs") {
  ExperimentSpec spec = SpecOf(R"({"experiment":"e","command":["x"],"num_samples":-1})");
  Json plan = PlanExperiment(spec, Json::MakeArray());
  CHECK(plan.Find("trials")->is_null());
  CHECK(plan.Find("brackets")->is_null());
  CHECK(Has(RenderPlan(plan), "unlimited"));
  CHECK(Has(RenderPlan(plan), "no node of the cluster is ready"));
}

TEST_CASE("man: what roff would take for its own is escaped") {
  std::string page = RenderMan({"rt exp best", "Best", ".dot\n'quote\n--flag \\ back", {"rt exp"}});
  CHECK(ManFileName("rt exp best") == "rt-exp-best.1");
  CHECK(Has(page, "\n\\&.dot\n\\&'quote\n\\-\\-flag \\e back\n"));
  CHECK(Has(page, ".BR rt\\-exp (1)"));
}
