// How good a search is, and how long a suggestion takes:
//   bench_search [raw] [algorithm=tpe] [seeds=0:30] [trials=200] [in_flight=1] [functions=branin2]
//                [shift=0.25] [noise=0.05] [option=value]
//   bench_search peers [algorithm=tpe] [in_flight=1] [shift=0.25]
//   bench_search latency [algorithm=tpe]
//   bench_search whole [algorithm=tpe] [trials=10000]
// The first prints a Markdown table of simple regrets beside Optuna's, or with `raw` a line per
// run: function, seed, trials, in flight, regret. The second prints Optuna's medians, the third
// milliseconds of CPU per suggestion, the fourth seconds of CPU of a whole search. `algorithm` is
// tpe, cmaes, gp or auto; `shift` moves each edge of the box by up to this part of its width, by
// seed; `noise` is the deviation of what the search is told, as a part of the range between the 1 %
// and the 99 % quantile, and the regret is that of the trial that looks best then. An option is a
// number of the algorithm's options, to try another value of it.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/algorithms/ask_tell.h"
#include "common/base/rng.h"
#include "common/search/auto.h"
#include "common/search/cma.h"
#include "common/search/gp.h"
#include "common/search/tpe.h"
#include "search/functions.h"
#include "search/optuna.h"

namespace rt::bench {
namespace {

struct Settings {
  uint64_t seeds_from = 0, seeds_to = 30;
  size_t trials = 200, in_flight = 1;
  std::string functions;  // Names with commas; empty: all.
  std::string algorithm = "tpe";
  double shift = 0, noise = 0;
  bool raw = false, peers = false;
  TpeOptions options;
  CmaOptions cma;
  GpOptions gp = GpDefaults(kGpVersion);
};

// The point of a trial of that number.
using Suggest = std::function<Point(const Observations&, uint64_t number)>;

// `encoding` outlives the result.
Suggest MakeSuggest(const Encoding& encoding, uint64_t seed, const Settings& settings) {
  if (settings.algorithm == "cmaes") {
    const auto cma = std::make_shared<CmaEs>(encoding, seed, settings.cma);
    return [cma](const Observations& seen, uint64_t number) {
      return cma->Suggest(seen, number)->point;
    };
  }
  if (settings.algorithm == "gp") {
    const auto gp = std::make_shared<GpOptimizer>(encoding, seed, settings.gp);
    return [gp](const Observations& seen, uint64_t number) {
      return gp->Suggest(seen, number)->point;
    };
  }
  if (settings.algorithm == "auto") {
    const auto chosen = std::make_shared<AutoOptimizer>(encoding, seed, AutoFacts{});
    return [chosen](const Observations& seen, uint64_t number) {
      return *chosen->Suggest(seen, number);
    };
  }
  return [&encoding, seed, options = settings.options](const Observations& seen, uint64_t number) {
    return SuggestTpe(encoding, seen, seed, number, options)->point;
  };
}

double CpuMillis() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

Encoding EncodingOf(const Function& function) {
  Json space = Json::MakeObject();
  for (size_t i = 0; i < function.axes(); ++i) {
    Json domain = Json::MakeObject();
    domain.Set("uniform", Json(Json::Array{Json(function.lower[i]), Json(function.upper[i])}));
    space.Set("x" + std::to_string(10 + i), std::move(domain));
  }
  return *Encoding::Of(*ParseSpace(space, "space"));
}

double ValueAt(const Function& function, const Encoding& encoding, const Point& point) {
  std::vector<double> x;
  const Json params = encoding.Decode(point);
  for (const auto& [name, value] : params.object()) x.push_back(value.AsDouble());
  return function.value(x);
}

// The function in a box that is moved along each axis, by up to `shift` of its width.
Function Shifted(Function function, double shift, uint64_t seed) {
  Rng rng(seed, 0x5417f);
  for (size_t i = 0; i < function.axes(); ++i) {
    const double width = function.upper[i] - function.lower[i];
    const double moved = shift * width * (2 * rng.Uniform() - 1);
    function.lower[i] += moved;
    function.upper[i] += moved;
  }
  return function;
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double at = part * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

// From the 1 % to the 99 % quantile of the values at random points.
double RangeOf(const Function& function, const Encoding& encoding) {
  Rng rng(1, 0x7a9e);
  std::vector<double> values;
  for (int i = 0; i < 2000; ++i) {
    Point point(function.axes());
    for (double& each : point) each = rng.Uniform();
    values.push_back(ValueAt(function, encoding, point));
  }
  return Quantile(values, 0.99) - Quantile(values, 0.01);
}

// The regret after 1, 2, … finished trials; the trials in flight finish in a random order.
std::vector<double> Regrets(const Function& original, uint64_t seed, const Settings& settings) {
  const Function function = Shifted(original, settings.shift, seed);
  const Encoding encoding = EncodingOf(function);
  const Suggest suggest = MakeSuggest(encoding, seed, settings);
  Observations seen;
  Rng order(seed, 0xf1e1d), errors(seed, 0xe7707);
  const double deviation = settings.noise > 0 ? settings.noise * RangeOf(function, encoding) : 0;
  std::vector<double> regrets;
  double least = HUGE_VAL, regret = HUGE_VAL;
  for (uint64_t asked = 0; regrets.size() < settings.trials;) {
    while (seen.in_flight.size() < settings.in_flight && asked < settings.trials) {
      Point point = suggest(seen, asked);
      seen.in_flight.push_back({asked++, std::move(point)});
    }
    const size_t ended = order.Below(seen.in_flight.size());
    FlyingTrial trial = std::move(seen.in_flight[ended]);
    seen.in_flight.erase(seen.in_flight.begin() + static_cast<ptrdiff_t>(ended));
    const double value = ValueAt(function, encoding, trial.point);
    const double seen_value = deviation > 0 ? value + deviation * errors.Normal() : value;
    if (seen_value < least) {
      least = seen_value;
      regret = std::max(value - function.minimum, 1e-14);
    }
    regrets.push_back(regret);
    const auto ended_at = static_cast<int64_t>(regrets.size());
    seen.finished.push_back({trial.number, std::move(trial.point), seen_value, ended_at});
  }
  return regrets;
}

double PeerRegret(const std::string& name, size_t trials, const Settings& settings) {
  if (settings.shift > 0 || settings.noise > 0) return 0;
  const OptunaRegret peer = settings.algorithm == "auto"    ? OptunaBest(name)
                            : settings.algorithm == "gp"    ? OptunaGpRegrets().at(name)
                            : settings.algorithm == "cmaes" ? OptunaCmaRegrets().at(name)
                                                            : OptunaRegrets().at(name);
  if (settings.in_flight == 16 && trials == 100) return peer.at_100_in_flight_16;
  if (settings.in_flight != 1) return 0;
  return trials == 50 ? peer.at_50 : trials == 100 ? peer.at_100 : trials == 200 ? peer.at_200 : 0;
}

// The numbers of trials after which regrets are compared.
std::vector<size_t> MarksOf(const std::string& algorithm) {
  if (algorithm == "gp") return {50, 100};
  return {100, 200};
}

// After each number of trials, by seed.
std::map<size_t, std::vector<double>> Run(const Function& function, const Settings& settings) {
  std::map<size_t, std::vector<double>> at;
  for (uint64_t seed = settings.seeds_from; seed < settings.seeds_to; ++seed) {
    const std::vector<double> regrets = Regrets(function, seed, settings);
    for (const size_t trials : MarksOf(settings.algorithm)) {
      if (trials > regrets.size()) continue;
      at[trials].push_back(regrets[trials - 1]);
      if (settings.raw)
        std::printf("%s %llu %zu %zu %.6g\n", function.name.c_str(),
                    static_cast<unsigned long long>(seed), trials, settings.in_flight,
                    regrets[trials - 1]);
    }
  }
  return at;
}

void PrintRegrets(const Settings& settings) {
  if (!settings.raw)
    std::printf(
        "| function | trials | in flight | median | quartiles | Optuna | ratio |\n"
        "|---|---|---|---|---|---|---|\n");
  double logarithms = 0;
  int compared = 0;
  for (const Function& function : Functions()) {
    if (!settings.functions.empty() &&
        ("," + settings.functions + ",").find("," + function.name + ",") == std::string::npos)
      continue;
    for (const auto& [trials, regrets] : Run(function, settings)) {
      if (settings.raw) continue;
      const double median = Quantile(regrets, 0.5);
      const double peer = PeerRegret(function.name, trials, settings);
      std::printf("| %s | %zu | %zu | %.3g | %.3g to %.3g |", function.name.c_str(), trials,
                  settings.in_flight, median, Quantile(regrets, 0.25), Quantile(regrets, 0.75));
      if (peer > 0) {
        std::printf(" %.3g | %.2f |\n", peer, median / peer);
        logarithms += std::log(median / peer);
        ++compared;
      } else {
        std::printf(" | |\n");
      }
    }
    std::fflush(stdout);
  }
  if (compared > 0)
    std::printf("\nGeometric mean of the %d ratios: %.3f\n", compared,
                std::exp(logarithms / compared));
}

// Optuna's medians: function, trials, regret.
void PrintPeers(const Settings& settings) {
  for (const Function& function : Functions())
    for (const size_t trials : MarksOf(settings.algorithm)) {
      const double regret = PeerRegret(function.name, trials, settings);
      if (regret > 0) std::printf("%s %zu %.6g\n", function.name.c_str(), trials, regret);
    }
}

// Milliseconds per suggestion with a history of `trials`, which grows by each. `first`: of the
// suggestion that reads the whole history.
void PrintLatency(const Function& function, size_t trials, const Settings& settings) {
  constexpr size_t kSuggestions = 101;
  const Encoding encoding = EncodingOf(function);
  const Suggest suggest = MakeSuggest(encoding, 7, settings);
  Observations seen;
  const auto add = [&](uint64_t number, Point point) {
    const double value = ValueAt(function, encoding, point);
    seen.finished.push_back({number, std::move(point), value, static_cast<int64_t>(number)});
  };
  for (uint64_t number = 0; number < trials; ++number) {
    Rng rng(7, number);
    Point point(function.axes());
    for (double& each : point) each = rng.Uniform();
    add(number, std::move(point));
  }
  std::vector<double> millis;
  for (uint64_t number = trials; number < trials + kSuggestions; ++number) {
    const double start = CpuMillis();
    Point point = suggest(seen, number);
    millis.push_back(CpuMillis() - start);
    add(number, std::move(point));
  }
  std::printf("BENCH %s_suggest_%zud_%zu %.3f ms p50, %.3f ms p90, first %.1f ms\n",
              settings.algorithm.c_str(), function.axes(), trials, Quantile(millis, 0.5),
              Quantile(millis, 0.9), millis[0]);
}

void PrintLatencies(const Settings& settings) {
  const Function &six = Functions()[2], &ten = Functions().back();
  if (settings.algorithm == "gp") {
    PrintLatency(six, 60, settings);  // Up to 160 trials, 110 on average.
    for (const size_t trials : {100u, 400u, 1000u}) PrintLatency(ten, trials, settings);
  } else {
    for (const size_t trials : {100u, 1000u, 10000u}) PrintLatency(ten, trials, settings);
  }
}

// A whole search as the head runs it: configurations, results and all, one trial in flight.
void PrintWhole(const Settings& settings) {
  Json space = Json::MakeObject();
  for (int i = 0; i < 10; ++i)
    space.Set("x" + std::to_string(i), *Json::Parse(R"({"uniform":[-5,5]})"));
  const absl::StatusOr<ExperimentSpec> spec =
      ParseExperimentSpec(Json::MakeObject({{"experiment", "e"},
                                            {"command", Json(Json::Array{Json("x")})},
                                            {"metric", "loss"},
                                            {"mode", "min"},
                                            {"num_samples", static_cast<int64_t>(settings.trials)},
                                            {"search", settings.algorithm},
                                            {"space", std::move(space)}}));
  AskTell search(*spec, 7);
  const double start = CpuMillis();
  size_t fallbacks = 0;
  while (const std::optional<AskTell::Trial> trial = search.Ask()) {
    fallbacks += trial->fallback.empty() ? 0 : 1;
    double loss = 0;
    const absl::StatusOr<Json> params = Json::Parse(trial->params);
    for (const auto& [name, value] : params->object()) loss += value.AsDouble() * value.AsDouble();
    (void)search.Tell(trial->number, {TrialResult::Kind::kValue, loss, 0});
  }
  std::printf("BENCH %s_search_10d_%zu %.1f s of CPU, %zu without an answer\n",
              settings.algorithm.c_str(), settings.trials, (CpuMillis() - start) / 1e3, fallbacks);
}

bool SetOption(Settings& settings, const std::string& name, double value) {
  TpeOptions& options = settings.options;
  CmaOptions& cma = settings.cma;
  const std::map<std::string, double*> numbers = {
      {"good_fraction", &options.good_fraction},
      {"rank_power", &options.rank_power},
      {"good_prior", &options.good_prior},
      {"other_prior", &options.other_prior},
      {"spread_prior", &options.spread_prior},
      {"good_bandwidth", &options.good_bandwidth},
      {"other_bandwidth", &options.other_bandwidth},
      {"good_bandwidth_min", &options.good_bandwidth_min},
      {"other_bandwidth_min", &options.other_bandwidth_min},
      {"correlation_trials", &options.correlation_trials},
      {"correlation_damping", &options.correlation_damping},
      {"candidate_spread", &options.candidate_spread},
      {"other_exponent", &options.other_exponent},
      {"smoothing", &options.smoothing},
      {"noise_chance", &settings.gp.noise_chance},
      {"sigma", &cma.sigma},
  };
  const std::map<std::string, size_t*> counts = {
      {"startup_trials", &options.startup_trials},
      {"good_min", &options.good_min},
      {"good_max", &options.good_max},
      {"fresh_trials", &options.fresh_trials},
      {"candidates", &options.candidates},
      {"population", &cma.population},
      {"stall_trials", &cma.stall_trials},
      {"model_trials", &cma.model_trials},
      {"gp_startup_trials", &settings.gp.startup_trials},
      {"history_max", &settings.gp.history_max},
      {"local_every", &settings.gp.local_every},
  };
  if (const auto count = counts.find(name); count != counts.end()) {
    *count->second = static_cast<size_t>(value);
    return true;
  }
  const auto number = numbers.find(name);
  if (number == numbers.end()) return false;
  *number->second = value;
  return true;
}

bool Read(Settings& settings, const std::string& argument) {
  settings.raw = settings.raw || argument == "raw";
  settings.peers = settings.peers || argument == "peers";
  if (argument == "raw" || argument == "peers") return true;
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) return false;
  const std::string name = argument.substr(0, equals), value = argument.substr(equals + 1);
  if (name == "seeds") {
    settings.seeds_from = std::strtoull(value.c_str(), nullptr, 10);
    settings.seeds_to = std::strtoull(value.substr(value.find(':') + 1).c_str(), nullptr, 10);
  } else if (name == "trials") {
    settings.trials = std::strtoull(value.c_str(), nullptr, 10);
  } else if (name == "in_flight") {
    settings.in_flight = std::strtoull(value.c_str(), nullptr, 10);
  } else if (name == "functions") {
    settings.functions = value;
  } else if (name == "algorithm") {
    settings.algorithm = value;
    return value == "tpe" || value == "cmaes" || value == "gp" || value == "auto";
  } else if (name == "shift") {
    settings.shift = std::strtod(value.c_str(), nullptr);
  } else if (name == "noise") {
    settings.noise = std::strtod(value.c_str(), nullptr);
  } else {
    return SetOption(settings, name, std::strtod(value.c_str(), nullptr));
  }
  return settings.in_flight > 0;
}

}  // namespace
}  // namespace rt::bench

int main(int count, char** arguments) {
  rt::bench::Settings settings;
  bool latency = false, whole = false;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    latency = latency || argument == "latency";
    whole = whole || argument == "whole";
    if (argument == "latency" || argument == "whole") continue;
    if (rt::bench::Read(settings, argument)) continue;
    std::fprintf(stderr, "%s: not an argument; see the head of search_bench.cc\n", arguments[i]);
    return 2;
  }
  if (latency) {
    rt::bench::PrintLatencies(settings);
  } else if (whole) {
    rt::bench::PrintWhole(settings);
  } else if (settings.peers) {
    rt::bench::PrintPeers(settings);
  } else {
    rt::bench::PrintRegrets(settings);
  }
  return 0;
}
