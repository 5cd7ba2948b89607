// The experiments that a run submits.
#include "tests/sim/simulation.h"

namespace rt::sim {
namespace {

constexpr uint64_t kSchedulerStream = 0x7363686564756c65, kSearchStream = 0x73656172636865;
constexpr uint64_t kStopStream = 0x73746f70, kElasticStream = 0x656c6173746963;
// Two ranks, and two whose gpus and whose network are tested first.
constexpr std::string_view kPlainGang = R"({"cpu":0.5,"ranks":2})";
constexpr std::string_view kTestedGang = R"({"cpu":0.5,"gpu":1,"ranks":2,"strategy":"SPREAD"})",
                           kSpreadGang =
                               R"({"cpu":0.5,"gpu":1,"ranks":2,"strategy":"STRICT_SPREAD"})";
constexpr uint64_t kReallocationStream = 0x6d6f7265, kAllocationStream = 0x67697665,
                   kPreflightStream = 0x74657374;
constexpr uint64_t kFreezeStream = 0x667265657a65;

// In every second run a stop rule on the iteration alone is an expression. As below, the share
// follows from the seed.
std::string WithExpression(uint64_t seed, std::string text) {
  const std::string rule = R"("stop":{"training_iteration":)";
  const size_t at = text.find(rule), end = text.find('}', at);
  if (at == std::string::npos || text.substr(at, end - at).find("other") != std::string::npos)
    return text;
  if (Rng(seed, kStopStream).Below(2) == 0) return text;
  const std::string bound = text.substr(at + rule.size(), end - at - rule.size());
  return text.replace(at, end + 1 - at,
                      R"("stop":"training_iteration >= )" + bound + R"( or other < 0")");
}

// In every second run with a map of stop rules, a plateau ends trials as well. As below, the share
// follows from the seed.
std::string WithPlateau(uint64_t seed, std::string text) {
  const std::string rules = R"("stop":{)";
  const size_t at = text.find(rules);
  if (at == std::string::npos || Rng(seed, kStopStream + 1).Below(2) == 0) return text;
  return text.insert(at + rules.size(), R"("plateau":{"std":9.1,"num_results":3},)");
}

// In every third run with a map of stop rules, a plateau of the best results ends the search.
std::string WithSearchPlateau(uint64_t seed, std::string text) {
  const std::string rules = R"("stop":{)";
  const size_t at = text.find(rules);
  if (at == std::string::npos || Rng(seed, kStopStream + 2).Below(3) != 0) return text;
  return text.insert(at + rules.size(),
                     R"("experiment_plateau":{"std":4.1,"top":3,"patience":2},)");
}

std::string WithRules(uint64_t seed, std::string text) {
  return WithSearchPlateau(seed, WithPlateau(seed, WithExpression(seed, std::move(text))));
}

}  // namespace

std::string Simulation::DrawExperiment(bool may_ask) {
  if (is_cloud_) return DrawCloudExperiment();
  auto below = [&](uint64_t bound) { return sim_.rng.Below(bound); };
  auto number = [](uint64_t value) { return std::to_string(value); };
  const bool is_quick = below(5) == 0;  // Its trials are over in a moment.
  std::string text = std::string(R"({"experiment":")") + (is_quick ? "quick" : "e") +
                     R"(","command":["train","${lr}"],"metric":"loss",)";
  text += std::string(R"("mode":")") + (below(2) == 0 ? "min" : "max") + "\",";
  const bool is_grid = below(2) == 0;
  text += is_grid ? R"("space":{"lr":{"grid":[1,2,3]}},)" : R"("space":{"lr":{"uniform":[0,1]}},)";
  const char* search[] = {R"("basic")", R"("wayward")", R"({"tpe":{"startup_trials":2}})"};
  text += std::string(R"("search":)") + search[below(is_grid ? 2 : 3)] + ",";
  if (is_quick) text += "\"short_trials\":true,";
  if (below(4) > 0) text += "\"strict_metric\":false,";  // Now and then a row has no loss.
  text += "\"num_samples\":" + number(is_quick ? 4 + below(12) : 1 + below(5)) + ",";
  if (below(3) > 0) {
    text += R"("scheduler":{"asha":{"max_t":)" + number(3 + below(24)) + R"(,"grace_period":)" +
            number(1 + below(2)) + R"(,"reduction_factor":)" + number(2 + below(2)) +
            R"(,"brackets":)" + number(1 + below(2)) + "}},";
  } else if (below(2) == 0) {
    text += R"("stop":{"training_iteration":)" + number(1 + below(20)) +
            (below(2) == 0 ? R"(,"other":2},)" : "},");
  }
  const char* durable_after[] = {"store", "store", "peer", "local"};
  text += std::string(R"("checkpoints":{"durable_after":")") + durable_after[below(4)] + "\"";
  if (below(2) == 0) {
    text += R"(,"num_to_keep":)" + number(1 + below(3));
    if (below(2) == 0) text += R"(,"score_attribute":"loss")";
    if (below(2) == 0) text += R"(,"score_order":"min")";
  }
  text += "},";
  if (below(5) == 0) text += "\"time_budget\":" + number(3 + below(40)) + ",";
  if (below(3) == 0) text += "\"max_concurrent\":" + number(1 + below(3)) + ",";
  if (below(2) == 0)
    text += "\"priority\":" + std::to_string(5 * static_cast<int>(below(4)) - 5) + ",";
  if (below(8) == 0) text += "\"fail_fast\":true,";
  if (below(4) == 0) text += R"("watchdog":{"factor":3,"restarts":)" + number(below(3)) + "},";
  if (below(4) == 0) text += R"("breaker":{"trials":)" + number(below(4)) + "},";
  const char* then[] = {"retry", "fail", "exclude_node"};
  if (below(3) == 0)
    text += std::string(R"("retry":[{"exit_code":1,"log":"x","then":")") + then[below(3)] +
            R"("},{"exit_code":)" + number(1 + below(2)) + R"(,"then":")" + then[below(3)] +
            "\"}],";
  if (may_ask && !is_quick && below(3) == 0) {
    const char* asks[] = {R"("suggests":true)", R"("judges":true)",
                          R"("suggests":true,"judges":true,"search":"own")",
                          R"("judges":true,"chooses":true)"};
    text += std::string(R"("driver":{)") + asks[below(4)] + "},";
  }
  const char* resources[] = {R"({"cpu":1})",
                             R"({"cpu":2})",
                             R"({"cpu":0.5})",
                             R"({"cpu":1,"gpu":1})",
                             R"({"cpu":1,"gpu":2})",
                             R"({"cpu":0.5,"gpu":0.3})",
                             R"({"cpu":0.25,"gpu":0.5})",
                             R"({"cpu":0.5,"gpu":0.4,"gpu_sharing":"spread"})",
                             R"({"cpu":0.5,"ranks":2})",
                             R"({"cpu":1,"gpu":0.5,"ranks":3,"strategy":"SPREAD"})",
                             R"({"bundles":[{"cpu":1},{"gpu":1},{"cpu":0.5}],"ranks":1})",
                             R"({"bundles":[{"cpu":1,"gpu":0.5},{"cpu":0.5,"gpu":1}],)"
                             R"("strategy":"STRICT_PACK"})",
                             R"({"cpu":0.5,"ranks":2,"strategy":"STRICT_SPREAD"})"};
  const uint64_t asked = below(is_quick ? 3 : two_stay_ ? 13 : 12);
  text += std::string("\"resources\":") + resources[asked] + ",";
  text += "\"max_failures\":" + std::to_string(static_cast<int>(below(4)) - 1) + "}";
  text = WithReallocation(WithBounds(WithFreezes(WithPreflight(WithRules(seed_, text)))));
  text = WithOtherSearch(WithOtherScheduler(may_ask, std::move(text)));
  return may_ask ? WithAllocations(std::move(text)) : text;
}

// In every other run trials with whole gpus have them tested first, in every third gangs. As below,
// the share follows from the seed.
std::string Simulation::WithPreflight(std::string text) const {
  const bool has_whole = text.find(R"({"cpu":1,"gpu":)") != std::string::npos &&
                         text.find(R"("gpu":0.)") == std::string::npos;
  if (const size_t at = text.find(kPlainGang);
      at != std::string::npos && Rng(seed_, kPreflightStream).Below(3) == 0) {
    text.replace(at, kPlainGang.size(), spreads_tested_gangs() ? kSpreadGang : kTestedGang);
    const std::string least = requests_.size() % 2 == 0 ? "100" : "60";
    return text.replace(text.size() - 1, 1, R"(,"preflight":{"min_bus_gbps":)" + least + "}}");
  }
  if (!has_whole || Rng(seed_, kPreflightStream).Below(2) != 0) return text;
  return text.replace(text.size() - 1, 1, R"(,"preflight":true})");
}

// In every fourth run trials are frozen in place. As below, the share follows from the seed.
std::string Simulation::WithFreezes(std::string text) const {
  if (Rng(seed_, kFreezeStream).Below(4) != 0) return text;
  return text.replace(text.size() - 1, 1, R"(,"suspend":true})");
}

// In every fourth run trials of one bundle that save get other resources. As below, the share
// follows from the seed.
std::string Simulation::WithReallocation(std::string text) const {
  Rng rng(seed_, kReallocationStream);
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  if (rng.Below(4) != 0 || has("\"ranks\"") || has("\"bundles\"") || has("\"suggests\""))
    return text;
  const char* policies[] = {R"({"distribute":{"increase_by":{"cpu":0.5}}})",
                            R"({"distribute":{"increase_by":{"cpu":1},"increase_by_times":1}})",
                            R"({"distribute_to_top":{}})"};
  return text.replace(text.size() - 1, 1,
                      std::string(R"(,"reallocation":)") + policies[rng.Below(3)] + "}");
}

// In every third run a driver gives resources to trials of one bundle that save. As below, the
// share follows from the seed.
std::string Simulation::WithAllocations(std::string text) const {
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  const bool is_fixed = has("\"ranks\"") || has("\"bundles\"") || has("\"reallocation\"");
  if (is_fixed || Rng(seed_, kAllocationStream).Below(3) != 0) return text;
  const std::string driver = R"("driver":{)", allocates = R"("allocates":true)";
  if (const size_t at = text.find(driver); at != std::string::npos)
    return text.insert(at + driver.size(), allocates + ",");
  return text.replace(text.size() - 1, 1, "," + driver + allocates + "}}");
}

// In every fifth run the head chooses how many ranks the trials have that would have one, and in
// half of these runs those of nearly all trials, so that searches of several priorities share what
// there is. As below, the share follows from the seed.
std::string Simulation::WithBounds(std::string text) const {
  Rng rng(seed_, kElasticStream);
  if (rng.Below(5) != 0) return text;
  const std::string bounds[] = {"[1,2]", "[1,3]", "[2,4]"};
  const std::string drawn = bounds[rng.Below(3)], key = R"("resources":)";
  const size_t at = text.find(key) + key.size();
  const size_t length = text.find(R"(,"max_failures")", at) - at;
  const bool is_any = rng.Below(2) == 0 && text.find("\"preflight\"") == std::string::npos;
  if (!is_any && text.compare(at, length, R"({"cpu":1})") != 0) return text;
  // All workers together have at least two cpus to the end.
  return text.replace(at, length, R"({"cpu":0.5,"ranks":)" + drawn + "}");
}

// In every sixth run asha is its promotion variant, PASHA, or the promotion variant that checks
// ranks. In every fourth population based training takes its place, by turns with its synchronous
// variant and PB2, and in half of those without PB2 a driver explores, in every twelfth the median
// stopping rule, and in every twelfth HyperBand. The share follows from the seed and not from the
// run's generator, so that the other runs keep their course.
std::string Simulation::WithOtherScheduler(bool may_ask, std::string text) const {
  const size_t at = text.find("\"asha\"");
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  if (at == std::string::npos || has("\"judges\"")) return text;
  const uint64_t kind = Rng(seed_, kSchedulerStream).Below(4);
  const bool is_third = Rng(seed_, kSchedulerStream + 1).Below(3) == 0;
  const size_t length = text.find('}', at) + 1 - at;
  if (kind == 0 && is_third)
    return text.replace(at, length, R"("hyperband":{"max_t":6,"reduction_factor":2})");
  const char* promotions[] = {R"("asha_promotion":{)", R"("pasha":{"tolerance":0.5,)",
                              R"("asha_promotion":{"rank_check":true,)"};
  if (kind == 0) return text.replace(at, 8, promotions[Rng(seed_, kSchedulerStream + 3).Below(3)]);
  if (kind == 2 && is_third)
    return text.replace(at, length,
                        R"("median_stopping":{"time_attr":"training_iteration",)"
                        R"("grace_period":2,"min_samples_required":1})");
  // A driver gives trials several ranks, whose positions in data sets are followed along one trial.
  if (kind != 1 || has("\"ranks\"") || has("\"bundles\"") || has("\"driver\"")) return text;
  const char* populations[] = {
      R"("pbt":{"synch":true,"hyperparam_mutations":{"lr":{"uniform":[0,1]}},)",
      R"("pb2":{"hyperparam_bounds":{"lr":[0,1]},)",
      R"("pbt":{"hyperparam_mutations":{"lr":{"uniform":[0,1]}},)"};
  const uint64_t population = Rng(seed_, kSchedulerStream + 2).Below(3);
  text.replace(at, length,
               populations[population] +
                   std::string(R"("time_attr":"training_iteration","perturbation_interval":2})"));
  if (may_ask && population != 1 && Rng(seed_, kSchedulerStream + 4).Below(2) == 0)
    text.replace(text.size() - 1, 1, R"(,"driver":{"explores":true}})");
  // A search that learns is refused beside it.
  const size_t search = text.find("\"search\":") + 9;
  return text.replace(search, text.find(",\"", search) - search, "\"basic\"");
}

// In three of four runs another model is in the place of tpe, and in a mixed space, and in one of
// eight BOHB's is, or DEHB, or MOBSTER's. As above, the share follows from the seed.
std::string Simulation::WithOtherSearch(std::string text) const {
  const std::string tpe = R"({"tpe":{"startup_trials":2}})", space = R"({"lr":{"uniform":[0,1]}})";
  const std::string models[] = {tpe, R"({"gp":{"startup_trials":2}})",
                                R"({"cmaes":{"startup_trials":2}})", R"("auto")"};
  const size_t at = text.find(tpe);
  const uint64_t drawn = Rng(seed_, kSearchStream).Below(std::size(models));
  if (at == std::string::npos) return text;
  if (drawn == 0) {
    const bool is_plain = Rng(seed_, kSearchStream + 3).Below(2) == 0;
    const char* of_rungs = Rng(seed_, kSearchStream + 4).Below(2) == 0
                               ? R"({"dehb":{"population_size":4}})"
                               : R"({"bohb":{"rows_min":1,"random_fraction":0.2}})";
    if (Rng(seed_, kSearchStream + 5).Below(3) == 0)
      of_rungs = R"({"mobster":{"startup_trials":3,"even_weight":0}})";
    return is_plain ? text : text.replace(at, tpe.size(), of_rungs);
  }
  text.replace(at, tpe.size(), models[drawn]);
  const bool is_conditional = Rng(seed_, kSearchStream + 1).Below(2) == 0;
  text.replace(text.find(space), space.size(),
               is_conditional ? R"({"lr":{"uniform":[0,1]},"kind":{"choice":["a","b","c"]},)"
                                R"("n":{"randint":[0,6],"if":{"kind":["a","b"]}},)"
                                R"("net":{"choice":[{"w":{"uniform":[0,1]}},"none"]}})"
                              : R"({"lr":{"uniform":[0,1]},"n":{"randint":[0,6]},)"
                                R"("kind":{"choice":["a","b","c"]}})");
  return drawn == 1 ? WithOutcomes(std::move(text)) : text;
}

// In every second run whose model is GP-BO and whose scheduler compares nothing there are two
// objectives and a constraint.
std::string Simulation::WithOutcomes(std::string text) const {
  const bool has_scheduler = text.find("\"scheduler\":") != std::string::npos;
  if (has_scheduler || Rng(seed_, kSearchStream + 2).Below(2) == 0) return text;
  const std::string metric = R"("metric":"loss","mode":")";
  const size_t at = text.find(metric), end = text.find("\",", at + metric.size()) + 2;
  const std::string mode = text.substr(at + metric.size(), 3);
  return text.replace(at, end - at,
                      R"("metric":["loss","training_iteration"],"mode":[")" + mode +
                          R"(","max"],"constraints":{"loss":{"<=":20}},)");
}

// Short work of shapes that only some of the pools can hold.
std::string Simulation::DrawCloudExperiment() {
  auto below = [&](uint64_t bound) { return sim_.rng.Below(bound); };
  const char* resources[] = {
      R"({"cpu":1})",           R"({"cpu":2})",
      R"({"cpu":4})",           R"({"cpu":3})",
      R"({"cpu":1,"gpu":1})",   R"({"cpu":0.5,"gpu":0.5})",
      R"({"cpu":1,"ranks":2})", R"({"cpu":2,"ranks":2,"strategy":"STRICT_SPREAD"})"};
  const char* durable_after[] = {"store", "store", "peer", "local"};
  return R"({"experiment":"e","command":["train","${lr}"],"metric":"loss","mode":"min",)"
         R"("space":{"lr":{"uniform":[0,1]}},"strict_metric":false,"num_samples":)" +
         std::to_string(1 + below(3)) + R"(,"stop":{"training_iteration":)" +
         std::to_string(1 + below(8)) + R"(},"checkpoints":{"durable_after":")" +
         durable_after[below(4)] + R"("},"resources":)" + resources[below(8)] +
         R"(,"max_failures":)" + std::to_string(static_cast<int>(below(3)) - 1) + "}";
}

}  // namespace rt::sim
