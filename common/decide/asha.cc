#include "common/decide/asha.h"

#include <cmath>

namespace rt {
namespace {

// numpy.percentile with linear interpolation, down to its choice of formula for the last bit. The
// values in ascending order are at(0) to at(count - 1).
template <class At>
double Percentile(size_t count, At&& at, double fraction) {
  double position = static_cast<double>(count - 1) * fraction;
  size_t below = static_cast<size_t>(position);
  if (below + 1 >= count) return at(count - 1);
  double weight = position - static_cast<double>(below);
  double a = at(below), b = at(below + 1);
  return weight >= 0.5 ? b - (b - a) * (1 - weight) : a + (b - a) * weight;
}

}  // namespace

uint32_t AshaBracket(const AshaSpec& spec, Rng& rng) {
  std::vector<double> weights;
  double most = static_cast<double>(AshaMilestones(spec, 0).size()), sum = 0;
  for (int i = 0; i < spec.brackets; ++i) {
    double count = static_cast<double>(AshaMilestones(spec, i).size());
    weights.push_back(std::exp(count - most));
    sum += weights.back();
  }
  double draw = rng.Uniform() * sum;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    if (draw < weights[i]) return static_cast<uint32_t>(i);
    draw -= weights[i];
  }
  return static_cast<uint32_t>(weights.size() - 1);
}

std::optional<double> AshaMilestone(const std::vector<double>& milestones, double t,
                                    const std::set<double>& recorded) {
  for (size_t i = milestones.size(); i-- > 0;) {
    if (t >= milestones[i] && !recorded.contains(milestones[i])) return milestones[i];
  }
  return std::nullopt;
}

bool AshaStops(const AshaSpec& spec, Mode mode, const std::vector<double>& values, double value) {
  if (values.empty() || std::isnan(value)) return false;
  const double fraction = 1 - 1 / spec.reduction_factor;
  const size_t count = values.size();
  if (mode == Mode::kMax)
    return value < Percentile(count, [&](size_t i) { return values[i]; }, fraction);
  // Less is better: the same rule over the negated values, which ascend from the other end.
  return -value < Percentile(count, [&](size_t i) { return -values[count - 1 - i]; }, fraction);
}

}  // namespace rt
