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

// The error of a network by its learning rate x0, momentum x1, and three more parameters, each of
// which has a best value. Large learning rates diverge, small ones learn slowly. Of the box, 9 %
// diverges, and in 64 % more the error at the end is above 0.12; the least is 0.02.
constexpr double kChanceError = 0.9, kEvaluationNoise = 0.0015;

struct Training {
  double speed = 0;  // Of the error's decay, per unit of time.
  double least = 0;  // What it decays to.
  bool diverges = false;

  explicit Training(const std::vector<double>& x) {
    const double step = 4 * x[0] - 4 - std::log10(1.001 - 0.99 * x[1]);  // Of the logarithm.
    diverges = step > 0.2 - 0.3 * x[3];
    speed = 0.6 * std::pow(10, std::min(step, 0.0) + 0.6);
    const double off_step = step + 0.5, off_decay = x[2] - 0.35, off_batch = x[3] - 0.3;
    const double off_width = 1 - x[4];
    least = 0.02 + 0.06 * off_step * off_step + 0.2 * off_decay * off_decay +
            0.1 * off_batch * off_batch + 0.1 * off_width * off_width;
  }
  double At(double unit) const {
    if (diverges) return kChanceError;
    return least + (kChanceError - least) * std::exp(-speed * unit);
  }
};

class TrainingCurve final : public Curve {
 public:
  TrainingCurve(const std::vector<double>& x, Rng rng) : training_(x), rng_(rng) {}

  double Next() override {
    ++unit_;
    return training_.At(unit_) + kEvaluationNoise * NormalQuantile(rng_.Uniform());
  }

 private:
  const Training training_;
  double unit_ = 0;
  Rng rng_;
};

FidelityProblem MakeTraining() {
  FidelityProblem problem{.name = "training5"};
  for (size_t i = 0; i < 5; ++i)
    problem.space +=
        std::string(i == 0 ? "{" : ",") + "\"x" + std::to_string(i) + "\":{\"uniform\":[0,1]}";
  problem.space += "}";
  problem.minimum = 0.02;
  problem.truth = [units = problem.units](const std::vector<double>& x) {
    return Training(x).At(units);
  };
  problem.train = [](const std::vector<double>& x, Rng rng) {
    return std::make_unique<TrainingCurve>(x, rng);
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
      MakeTraining(),
  };
  return all;
}

std::vector<double> ValuesOf(const Json& params) {
  std::vector<double> values;
  for (const auto& [name, value] : params.object()) values.push_back(value.AsDouble());
  return values;
}

}  // namespace rt::bench
