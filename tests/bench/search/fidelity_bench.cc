// How good searches with rungs are, against random search and schedulers without a model:
//   bench_fidelity [problems=mfh3_good,…] [methods=default,…] [seeds=0:30] [workers=4]
//                  [budget=100]
//   bench_fidelity real=mlp,torch,xgboost python=python3 [methods=…] [seeds=0:30] [workers=4]
//   bench_fidelity list
//   bench_fidelity latency
// A line per run and budget: problem, method, seed, budget, regret, trials, seconds of CPU. A
// budget is the time of so many whole trainings, summed over the workers. The second trains for
// real (real_work.py), until an accuracy is within 0.005 of the best one that is known: problem,
// method, seed, epochs, trials, best error. The third prints the methods with their search and
// scheduler, the fourth milliseconds of CPU per answer of mobster.
// search='{"mobster":{…}}' scheduler='"fifo"' instead of methods compares what they say, as a spec
// does, with MAX for the time of a whole training; its name is "given".
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/search/sobol_search.h"
#include "search/real_problem.h"
#include "search/rung_race.h"

namespace rt::bench {
namespace {

struct Method {
  const char *name, *search, *scheduler;
};

// MAX is the time of a whole training.
constexpr Method kMethods[] = {
    {"random", R"("basic")", R"("fifo")"},
    {"asha", R"("basic")", R"({"asha":{"max_t":MAX,"reduction_factor":3}})"},
    {"hyperband", R"("basic")", R"({"hyperband":{"max_t":MAX}})"},
    {"promotion", R"("basic")", R"({"asha_promotion":{"max_t":MAX,"reduction_factor":3}})"},
    {"checked", R"("basic")",
     R"({"asha_promotion":{"max_t":MAX,"reduction_factor":3,"rank_check":true}})"},
    {"default", R"("auto")",
     R"({"asha_promotion":{"max_t":MAX,"reduction_factor":3,"rank_check":true}})"},
    {"mobster", R"("mobster")", R"({"asha_promotion":{"max_t":MAX,"reduction_factor":3}})"},
    {"mobster_checked", R"("mobster")",
     R"({"asha_promotion":{"max_t":MAX,"reduction_factor":3,"rank_check":true}})"},
    {"mobster_asha", R"("mobster")", R"({"asha":{"max_t":MAX,"reduction_factor":3}})"},
    {"bohb_asha", R"("bohb")", R"({"asha":{"max_t":MAX,"reduction_factor":3}})"},
    {"bohb", R"("bohb")", R"({"hyperband":{"max_t":MAX,"largest_first":true}})"},
    {"bohb_checked", R"("bohb")",
     R"({"asha_promotion":{"max_t":MAX,"reduction_factor":3,"rank_check":true}})"},
    {"dehb", R"("dehb")", R"({"hyperband":{"max_t":MAX,"largest_first":true}})"},
};

// Of whole trainings, after which regrets are compared.
constexpr int64_t kBudgets[] = {5, 10, 20, 50, 100};

bool IsListed(const std::string& list, const std::string& name) {
  return list.empty() || ("," + list + ",").find("," + name + ",") != std::string::npos;
}

std::string WithMax(std::string text, double units) {
  if (const size_t at = text.find("MAX"); at != std::string::npos)
    text.replace(at, 3, std::to_string(static_cast<int>(units)));
  return text;
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void Run(const FidelityProblem& problem, const Method& method, uint64_t seed, size_t workers,
         int64_t budget_max) {
  const double start = CpuSeconds();
  RungRace race(problem, method.search, WithMax(method.scheduler, problem.units), workers, seed);
  for (const int64_t budget : kBudgets) {
    if (budget > budget_max) break;
    race.RunTo(budget * static_cast<int64_t>(problem.units) / static_cast<int64_t>(workers));
    std::printf("%s %s %llu %lld %.6g %zu %.1f\n", problem.name.c_str(), method.name,
                static_cast<unsigned long long>(seed), static_cast<long long>(budget),
                race.Regret(), race.trials(), CpuSeconds() - start);
  }
  if (race.fallbacks() > 0)
    std::fprintf(stderr, "%s %s: %zu without an answer\n", problem.name.c_str(), method.name,
                 race.fallbacks());
  std::fflush(stdout);
}

constexpr int64_t kEpochsMax = 3000;

void RunToTarget(const FidelityProblem& problem, const Method& method, uint64_t seed,
                 size_t workers) {
  RungRace race(problem, method.search, WithMax(method.scheduler, problem.units), workers, seed);
  race.RunTo(kEpochsMax / static_cast<int64_t>(workers));
  std::printf("%s %s %llu %zu %zu %.5f\n", problem.name.c_str(), method.name,
              static_cast<unsigned long long>(seed), race.rows(), race.trials(), race.best());
  std::fflush(stdout);
}

// Milliseconds per answer with `trials` open trials on six axes, all of which are recorded at the
// first of five rungs, and every third one at the next; one more comes before each answer.
void PrintLatency(size_t trials) {
  constexpr size_t kAnswers = 31;
  const FidelityProblem& problem = FidelityProblems()[2];
  const absl::StatusOr<Json> json = Json::Parse(
      R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min","num_samples":-1,)"
      R"("search":{"mobster":{"random_fraction":0,"even_weight":0}},"space":)" +
      problem.space + "}");
  const absl::StatusOr<ExperimentSpec> spec = ParseExperimentSpec(*json);
  GuardedModel model(*spec, 7);
  std::vector<TrialResult> results;
  std::vector<double> millis;
  while (results.size() < trials + kAnswers) {
    const std::string params = SobolConfiguration(*spec, 7, results.size()).Dump();
    if (results.size() >= trials) {
      const double start = CpuSeconds();
      RT_CHECK(model.Ask(results, {}).ok());
      millis.push_back(1e3 * (CpuSeconds() - start));
    }
    const std::unique_ptr<Curve> curve =
        problem.train(ValuesOf(*Json::Parse(params)), Rng(1, results.size()));
    size_t unit = 0, place = results.size();
    model.Add(params);
    results.push_back({});
    for (size_t milestone = 1; milestone <= 81; milestone *= 3, place /= 3) {
      double value = 0;
      while (unit < milestone) value = curve->Next(), ++unit;
      results.back().rungs.push_back({static_cast<double>(milestone), value});
      if (place % 3 != 0) break;
    }
  }
  std::sort(millis.begin(), millis.end());
  std::printf("BENCH mobster_answer_6d_%zu %.1f ms p50, %.1f ms max\n", trials,
              millis[kAnswers / 2], millis.back());
}

}  // namespace
}  // namespace rt::bench

int main(int count, char** arguments) {
  using namespace rt::bench;
  std::string problems, listed, real, python = "python3", search, scheduler;
  uint64_t from = 0, to = 30;
  size_t workers = 4;
  int64_t budget_max = INT64_MAX;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (argument == "list") {
      for (const Method& method : kMethods)
        std::printf("%s %s %s\n", method.name, method.search, method.scheduler);
      return 0;
    }
    if (argument == "latency") {
      for (const size_t trials : {100u, 500u}) PrintLatency(trials);
      return 0;
    }
    if (name == "problems") problems = value;
    else if (name == "methods") listed = value;
    else if (name == "search") search = value;
    else if (name == "scheduler") scheduler = value;
    else if (name == "real") real = value;
    else if (name == "python") python = value;
    else if (name == "budget") budget_max = std::strtoll(value.c_str(), nullptr, 10);
    else if (name == "workers") workers = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "seeds" && value.find(':') != std::string::npos) {
      from = std::strtoull(value.c_str(), nullptr, 10);
      to = std::strtoull(value.substr(value.find(':') + 1).c_str(), nullptr, 10);
    } else {
      std::fprintf(stderr, "%s: not an argument; see the head of fidelity_bench.cc\n",
                   arguments[i]);
      return 2;
    }
  }
  if (workers == 0) return 2;
  std::vector<Method> methods;
  if (!search.empty()) {
    if (scheduler.empty()) scheduler = "\"fifo\"";
    methods.push_back({"given", search.c_str(), scheduler.c_str()});
  } else {
    for (const Method& method : kMethods)
      if (IsListed(listed, method.name)) methods.push_back(method);
  }
  for (const absl::string_view task : absl::StrSplit(real, ',', absl::SkipEmpty())) {
    const FidelityProblem problem = RealProblem(std::string(task), python);
    for (const Method& method : methods)
      for (uint64_t seed = from; seed < to; ++seed) RunToTarget(problem, method, seed, workers);
  }
  if (!real.empty()) return 0;
  for (const FidelityProblem& problem : FidelityProblems())
    for (const Method& method : methods)
      if (IsListed(problems, problem.name))
        for (uint64_t seed = from; seed < to; ++seed)
          Run(problem, method, seed, workers, budget_max);
  return 0;
}
