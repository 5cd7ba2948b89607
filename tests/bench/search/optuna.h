// Median simple regrets of Optuna 5.0.0 on the nine functions, 30 seeds, measured by this project
// on 2026-11-21 with the same boxes and numbers of trials: of its default sampler (TPE,
// multivariate), and of its CmaEsSampler.
#pragma once

#include <map>
#include <string>

namespace rt::bench {

struct OptunaRegret {
  double at_100, at_200;       // One trial in flight.
  double at_100_in_flight_16;  // 16 in flight, finishing in random order; 0: not measured.
};

inline const std::map<std::string, OptunaRegret>& OptunaRegrets() {
  static const std::map<std::string, OptunaRegret> regrets = {
      {"branin2", {.0275, .0024, .078}}, {"hartmann3", {.0116, .0026, .027}},
      {"hartmann6", {.152, .041, .40}},  {"rosenbrock2", {.606, .213, .73}},
      {"rosenbrock4", {18.2, 5.7, 133}}, {"ackley5", {6.5, 4.4, 7.5}},
      {"levy4", {.141, .075, .37}},      {"rastrigin4", {18.6, 11.1, 20.9}},
      {"sphere10", {6.7, 1.56, 17.4}},
  };
  return regrets;
}

inline const std::map<std::string, OptunaRegret>& OptunaCmaRegrets() {
  static const std::map<std::string, OptunaRegret> regrets = {
      {"branin2", {.010, 6e-6, 0}},     {"hartmann3", {.040, .0011, 0}},
      {"hartmann6", {.241, .041, 0}},   {"rosenbrock2", {.242, .074, 0}},
      {"rosenbrock4", {38.7, 3.65, 0}}, {"ackley5", {5.53, 2.63, 0}},
      {"levy4", {.118, .008, 0}},       {"rastrigin4", {11.5, 9.9, 0}},
      {"sphere10", {2.47, .58, 0}},
  };
  return regrets;
}

}  // namespace rt::bench
