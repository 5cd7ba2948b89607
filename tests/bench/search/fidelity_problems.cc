#include "search/fidelity_problems.h"

#include <cmath>

#include "common/search/elementary.h"
#include "search/functions.h"

namespace rt::bench {
namespace {

class HartmannCurve final : public Curve {
 public:
  HartmannCurve(std::vector<double> x, double bias, double noise, double units, Rng rng)
      : x_(std::move(x)), bias_(bias), noise_(noise), units_(units), rng_(rng) {}

  double Next() override {
    ++unit_;
    const double rest = 1 - std::log(unit_) / std::log(units_);
    const double normal = NormalQuantile(rng_.Uniform());
    return HartmannAt(x_, bias_ * rest) + std::abs(normal) * noise_ * rest;
  }

 private:
  const std::vector<double> x_;
  const double bias_, noise_, units_;
  double unit_ = 0;
  Rng rng_;
};

FidelityProblem MakeHartmann(size_t axes, const std::string& kind, double bias, double noise) {
  FidelityProblem problem{.name = "mfh" + std::to_string(axes) + "_" + kind};
  for (size_t i = 0; i < axes; ++i)
    problem.space +=
        std::string(i == 0 ? "{" : ",") + "\"x" + std::to_string(i) + "\":{\"uniform\":[0,1]}";
  problem.space += "}";
  problem.minimum = axes == 3 ? -3.862782 : -3.322368;
  problem.truth = [](const std::vector<double>& x) { return HartmannAt(x, 0); };
  problem.train = [=, units = problem.units](const std::vector<double>& x, Rng rng) {
    return std::make_unique<HartmannCurve>(x, bias, noise, units, rng);
  };
  return problem;
}

constexpr int kDrawsPerUnit = 9;

class CountingCurve final : public Curve {
 public:
  CountingCurve(std::vector<double> x, size_t flags, Rng rng)
      : x_(std::move(x)), flags_(flags), rng_(rng), ones_(x_.size(), 0) {}

  double Next() override {
    draws_ += kDrawsPerUnit;
    double sum = 0;
    for (size_t i = 0; i < x_.size(); ++i) {
      if (i < flags_) {
        sum += x_[i];
        continue;
      }
      for (int draw = 0; draw < kDrawsPerUnit; ++draw) ones_[i] += rng_.Chance(x_[i]) ? 1 : 0;
      sum += ones_[i] / draws_;
    }
    return -sum;
  }

 private:
  const std::vector<double> x_;
  const size_t flags_;
  Rng rng_;
  std::vector<double> ones_;
  double draws_ = 0;
};

// `flags` parameters that are 0 or 1, without an order, and as many chances.
FidelityProblem MakeCounting(size_t flags) {
  FidelityProblem problem{.name = "counting" + std::to_string(flags)};
  for (size_t i = 0; i < 2 * flags; ++i)
    problem.space += std::string(i == 0 ? "{" : ",") + "\"x" + std::to_string(100 + i) +
                     "\":" + (i < flags ? R"({"choice":[0,1]})" : R"({"uniform":[0,1]})");
  problem.space += "}";
  problem.minimum = -2 * static_cast<double>(flags);
  problem.truth = [](const std::vector<double>& x) {
    double sum = 0;
    for (const double each : x) sum += each;
    return -sum;
  };
  problem.train = [flags](const std::vector<double>& x, Rng rng) {
    return std::make_unique<CountingCurve>(x, flags, rng);
  };
  return problem;
}

}  // namespace

const std::vector<FidelityProblem>& FidelityProblems() {
  static const std::vector<FidelityProblem> all = {
      MakeHartmann(3, "good", 2.5, 2),
      MakeHartmann(3, "terrible", 4, 5),
      MakeHartmann(6, "good", 2.5, 2),
      MakeHartmann(6, "terrible", 4, 5),
      MakeCounting(8),
      MakeCounting(32),
  };
  return all;
}

std::vector<double> ValuesOf(const Json& params) {
  std::vector<double> values;
  for (const auto& [name, value] : params.object()) values.push_back(value.AsDouble());
  return values;
}

}  // namespace rt::bench
