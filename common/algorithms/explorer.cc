#include "common/algorithms/explorer.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <vector>

#include "common/algorithms/guarded_model.h"
#include "common/base/rng.h"
#include "common/decide/pb2.h"
#include "common/search/bandit.h"

namespace rt {
namespace {

// Explorations are drawn from a stream of their own.
constexpr uint64_t kBanditStream = 0x62616e6469742121;

struct ExploredAxis {
  std::string name;
  double lower = 0, upper = 1;
};

std::vector<ExploredAxis> AxesOf(const ExperimentSpec& spec) {
  std::vector<ExploredAxis> axes;
  const Json* bounds = spec.scheduler.options.Find(kBoundsOption);
  if (bounds == nullptr) return axes;
  for (const auto& [name, pair] : bounds->object())
    axes.push_back({name, pair.array()[0].AsDouble(), pair.array()[1].AsDouble()});
  return axes;
}

// The configuration in the cube; nullopt: it lacks a parameter, or has one that is not a number.
std::optional<std::vector<double>> PlaceOf(const std::string& text,
                                           const std::vector<ExploredAxis>& axes) {
  const absl::StatusOr<Json> params = Json::Parse(text);
  if (!params.ok()) return std::nullopt;
  std::vector<double> place;
  for (const ExploredAxis& axis : axes) {
    const Json* value = params->Find(axis.name);
    if (value == nullptr || !value->is_number() || !std::isfinite(value->AsDouble()))
      return std::nullopt;
    place.push_back(
        std::clamp((value->AsDouble() - axis.lower) / (axis.upper - axis.lower), 0.0, 1.0));
  }
  return place;
}

BanditData DataOf(const ExperimentSpec& spec, const ExploreQuestion& question,
                  const std::vector<ExploredAxis>& axes) {
  const double interval = spec.scheduler.options.GetDouble("perturbation_interval", 1);
  BanditData data{.axes = axes.size(), .now = question.time / interval};
  for (const ExploreSample& sample : question.samples) {
    std::optional<std::vector<double>> place = PlaceOf(sample.params, axes);
    if (!place || !std::isfinite(sample.change)) continue;
    data.points.push_back(*std::move(place));
    data.times.push_back(sample.time / interval);
    data.values.push_back(sample.change);
  }
  for (const std::string& params : question.pending)
    if (std::optional<std::vector<double>> place = PlaceOf(params, axes))
      data.pending.push_back(*std::move(place));
  return data;
}

// The parent's configuration with the point's values; a whole number stays one.
std::string WithPoint(const std::string& base, const std::vector<ExploredAxis>& axes,
                      const std::vector<double>& point) {
  const absl::StatusOr<Json> parsed = Json::Parse(base);
  Json params = parsed.ok() ? *parsed : Json::MakeObject();
  for (size_t k = 0; k < axes.size(); ++k) {
    const Json* before = params.Find(axes[k].name);
    const bool is_whole = before != nullptr && before->is_int();
    double value = axes[k].lower + point[k] * (axes[k].upper - axes[k].lower);
    value = std::clamp(value, axes[k].lower, axes[k].upper);
    const double least = std::ceil(axes[k].lower), most = std::floor(axes[k].upper);
    const bool stays_whole = is_whole && least <= most;
    if (stays_whole) value = std::clamp(std::round(value), least, most);
    params.Set(axes[k].name, stays_whole ? Json(static_cast<int64_t>(value)) : Json(value));
  }
  return params.Dump();
}

}  // namespace

Exploration ExploreFor(const ExperimentSpec& spec, uint64_t seed, const ExploreQuestion& question,
                       const GiveUp& give_up, bool is_failed) {
  const std::vector<ExploredAxis> axes = AxesOf(spec);
  const uint64_t number = (uint64_t{question.trial} << 32) + question.comparisons;
  Rng rng(seed ^ kBanditStream, number);
  std::string fallback = "the model was given up";
  if (!is_failed) {
    try {
      if (const auto point = NextOfBandit(DataOf(spec, question, axes), rng, give_up))
        return {WithPoint(question.base, axes, *point), ""};
    } catch (const std::exception& error) {
      fallback = FallbackReason(error.what());
    } catch (...) {
      fallback = "it ended with an exception";
    }
  }
  Rng drawn(seed ^ kBanditStream, ~number);
  std::vector<double> point;
  for (size_t k = 0; k < axes.size(); ++k) point.push_back(drawn.Uniform());
  return {WithPoint(question.base, axes, point), fallback};
}

}  // namespace rt
