#include "common/search/encoding.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/search/elementary.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/quantum.h"

namespace rt {
namespace {

using DomainKind = Domain::Kind;

// A normal variable is cut off where its distribution function is this close to 0 or 1, at about
// 6.1 standard deviations.
constexpr double kNormalTail = 0x1p-30;
constexpr double kNormalReach = 6.1;
// With more steps the cells would be narrower than a coordinate's last bit.
constexpr double kStepsMax = 0x1p53;

bool IsInteger(DomainKind kind) {
  return kind == DomainKind::kRandInt || kind == DomainKind::kQRandInt ||
         kind == DomainKind::kLogRandInt || kind == DomainKind::kQLogRandInt;
}

// Whether the values are three or more different numbers.
bool IsOrdered(const std::vector<Json>& values) {
  std::set<double> seen;
  for (const Json& value : values) {
    if (!value.is_number() || !std::isfinite(value.AsDouble())) return false;
    seen.insert(value.AsDouble());
  }
  return seen.size() == values.size() && seen.size() >= 3;
}

// 1 and 1.0 are one value: a configuration may have passed through another language.
bool IsSame(const Json& a, const Json& b) {
  return a == b || (a.is_number() && b.is_number() && a.AsDouble() == b.AsDouble());
}

}  // namespace

void Axis::SetSteps(double first, double last, double step, double offset) {
  first_ = first;
  last_ = last;
  step_ = step;
  offset_ = offset;
  if (last - first < kStepsMax) {
    kind_ = Kind::kSteps;
    count_ = static_cast<uint64_t>(last - first) + 1;
  }
  low_ = (first - offset) * step;
  high_ = (last + 1 - offset) * step;
}

void Axis::SetChoice() {
  const std::vector<Json>& values = variable_.domain.values;
  for (size_t i = 0; i < values.size(); ++i) order_.push_back(i);
  const bool ordered = IsOrdered(values);
  if (ordered)
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return values[a].AsDouble() < values[b].AsDouble();
    });
  SetSteps(0, static_cast<double>(values.size()) - 1, 1, 0.5);
  if (!ordered) kind_ = Kind::kCategories;
}

std::optional<Axis> Axis::Of(const Variable& variable) {
  Axis axis(variable);
  const Domain& domain = variable.domain;
  const double lower = domain.lower, upper = domain.upper, q = domain.q;
  axis.integer_ = IsInteger(domain.kind);
  axis.low_ = lower;
  axis.high_ = upper;
  switch (domain.kind) {
    case DomainKind::kUniform:
    case DomainKind::kLogUniform: break;
    case DomainKind::kQUniform:
    case DomainKind::kQRandInt:
    case DomainKind::kQLogUniform:
    case DomainKind::kQLogRandInt:
      axis.SetSteps(std::ceil(lower / q - 1e-9), std::floor(upper / q + 1e-9), q, 0.5);
      break;
    case DomainKind::kRandInt: axis.SetSteps(lower, upper - 1, 1, 0.5); break;
    case DomainKind::kLogRandInt:
      axis.SetSteps(lower, upper - 1, 1, 0);  // The floor of a draw.
      break;
    case DomainKind::kNormal:
      axis.scale_ = Scale::kNormal;
      if (upper == 0) return std::nullopt;
      break;
    case DomainKind::kQNormal:
      axis.scale_ = Scale::kNormal;
      axis.SetSteps(std::nearbyint((lower - kNormalReach * upper) / q),
                    std::nearbyint((lower + kNormalReach * upper) / q), q, 0.5);
      break;
    case DomainKind::kChoice:
    case DomainKind::kGrid: axis.SetChoice(); break;
  }
  if (domain.kind == DomainKind::kLogUniform || domain.kind == DomainKind::kQLogUniform ||
      domain.kind == DomainKind::kLogRandInt || domain.kind == DomainKind::kQLogRandInt) {
    axis.scale_ = Scale::kLog;
    axis.low_ = Log(axis.low_);
    axis.high_ = Log(axis.high_);
  }
  if (axis.kind_ != Kind::kReal && axis.count_ == 1) return std::nullopt;
  return axis;
}

Json Axis::Constant(const Variable& variable) {
  Axis axis(variable);
  const Domain& domain = variable.domain;
  if (domain.kind == DomainKind::kChoice || domain.kind == DomainKind::kGrid)
    return domain.values.front();
  if (domain.kind == DomainKind::kNormal) return Json(domain.lower);
  const bool is_range = domain.kind != DomainKind::kQNormal;
  const double q = domain.q > 0 ? domain.q : 1;
  const double k = is_range ? std::ceil(domain.lower / q - 1e-9) : std::nearbyint(domain.lower / q);
  if (!IsInteger(domain.kind)) return Json(QuantumValue(k, q));
  return Json(static_cast<int64_t>(std::llround(k * q)));
}

double Axis::Unit(double value) const {
  if (scale_ == Scale::kNormal)
    return NormalCdf((value - variable_.domain.lower) / variable_.domain.upper);
  if (scale_ == Scale::kLog) value = value > 0 ? Log(value) : low_;
  // Halves, because the width of a range may overflow.
  return std::clamp((0.5 * value - 0.5 * low_) / (0.5 * high_ - 0.5 * low_), 0.0, 1.0);
}

double Axis::Value(double coordinate) const {
  if (scale_ == Scale::kNormal)
    return variable_.domain.lower +
           variable_.domain.upper *
               NormalQuantile(std::clamp(coordinate, kNormalTail, 1 - kNormalTail));
  const double value = low_ * (1 - coordinate) + high_ * coordinate;
  return scale_ == Scale::kLog ? Exp(value) : value;
}

double Axis::Edge(double cell) const {
  if (cell <= 0) return 0;
  if (cell >= static_cast<double>(count_)) return 1;
  return Unit((first_ + cell - offset_) * step_);
}

double Axis::StepOf(double coordinate) const {
  const double value = Value(std::clamp(coordinate, 0.0, 1.0));
  return std::clamp(std::floor(value / step_ + offset_), first_, last_);
}

uint64_t Axis::CellOf(double coordinate) const {
  return static_cast<uint64_t>(StepOf(coordinate) - first_);
}

double Axis::Centre(uint64_t cell) const {
  const double at = static_cast<double>(cell);
  return 0.5 * (Edge(at) + Edge(at + 1));
}

double Axis::Width(uint64_t cell) const {
  const double at = static_cast<double>(cell);
  return Edge(at + 1) - Edge(at);
}

double Axis::Snap(double coordinate) const {
  return kind_ == Kind::kReal ? std::clamp(coordinate, 0.0, 1.0) : Centre(CellOf(coordinate));
}

Drawn Axis::DrawnAt(double coordinate) const {
  if (!is_choice()) return {Decode(coordinate)};
  return {ValueAt(coordinate), PlaceAt(coordinate)};
}

Json Axis::Decode(double coordinate) const {
  const Domain& domain = variable_.domain;
  if (is_choice()) return ValueAt(coordinate);
  if (step_ == 0) {
    const double value = Value(std::clamp(coordinate, 0.0, 1.0));
    if (scale_ == Scale::kNormal) return Json(value);
    const double upper = domain.kind == DomainKind::kUniform
                             ? std::nextafter(domain.upper, domain.lower)
                             : domain.upper;
    return Json(std::clamp(value, domain.lower, upper));
  }
  const double k = StepOf(coordinate);
  if (integer_) return Json(static_cast<int64_t>(std::llround(k * step_)));
  return Json(QuantumValue(k, step_));
}

double Axis::CoordinateOf(size_t place) const {
  const auto cell = std::find(order_.begin(), order_.end(), place);
  return Centre(static_cast<uint64_t>(cell - order_.begin()));
}

std::optional<double> Axis::Encode(const Json& value) const {
  if (!order_.empty()) {
    for (size_t cell = 0; cell < order_.size(); ++cell)
      if (IsSame(variable_.domain.values[order_[cell]], value)) return Centre(cell);
    return std::nullopt;
  }
  if (!value.is_number() || !std::isfinite(value.AsDouble())) return std::nullopt;
  if (kind_ == Kind::kReal) return Unit(value.AsDouble());
  const double k = std::clamp(std::nearbyint(value.AsDouble() / step_), first_, last_);
  return Centre(static_cast<uint64_t>(k - first_));
}

absl::StatusOr<Encoding> Encoding::Of(const Space& space) {
  Encoding encoding;
  encoding.space_ = space;
  encoding.drawn_.resize(space.variables.size());
  std::vector<size_t> axis_of(space.variables.size(), SIZE_MAX);
  for (size_t i = 0; i < space.variables.size(); ++i) {
    const Variable& variable = space.variables[i];
    if (variable.domain.kind == DomainKind::kGrid)
      return SpecError("space/" + PathText(variable.path), "a model does not search a grid",
                       "use choice");
    std::optional<Axis> axis = Axis::Of(variable);
    if (!axis.has_value()) encoding.drawn_[i] = {Axis::Constant(variable), 0};
    std::vector<AxisCondition> conditions;
    bool may_exist = true;
    for (const Condition& each : variable.conditions) {
      const size_t parent = axis_of[each.variable];
      if (parent != SIZE_MAX) conditions.push_back({parent, each});
      else may_exist = may_exist && Hold({each}, encoding.drawn_);
    }
    if (!axis.has_value() || !may_exist) continue;
    axis_of[i] = encoding.axes_.size();
    encoding.axes_.push_back(*std::move(axis));
    encoding.variable_.push_back(i);
    encoding.conditions_.push_back(std::move(conditions));
  }
  while (encoding.steady_ < encoding.axes_.size() && !encoding.IsConditional(encoding.steady_))
    ++encoding.steady_;
  return encoding;
}

bool Encoding::Exists(size_t axis, const Point& point) const {
  for (const AxisCondition& each : conditions_[axis]) {
    const Axis& of = axes_[each.axis];
    const double coordinate = point[each.axis];
    if (!(of.is_choice() ? Holds(each.condition, of.ValueAt(coordinate), of.PlaceAt(coordinate))
                         : Holds(each.condition, of.Decode(coordinate), 0)))
      return false;
  }
  return true;
}

std::vector<bool> Encoding::Existing(const Point& point) const {
  std::vector<bool> existing(axes_.size(), true);
  for (size_t axis = steady_; axis < axes_.size(); ++axis) existing[axis] = Exists(axis, point);
  return existing;
}

uint64_t Encoding::Configurations() const {
  uint64_t product = 1;
  for (const Axis& axis : axes_) {
    if (axis.count() == 0 || product > UINT64_MAX / axis.count()) return UINT64_MAX;
    product *= axis.count();
  }
  return product;
}

bool Encoding::IsDiscrete() const {
  return std::all_of(axes_.begin(), axes_.end(),
                     [](const Axis& axis) { return axis.kind() != Axis::Kind::kReal; });
}

std::vector<Drawn> Encoding::DrawnAt(const Point& point) const {
  std::vector<Drawn> drawn = drawn_;
  for (size_t i = 0; i < axes_.size(); ++i) drawn[variable_[i]] = axes_[i].DrawnAt(point[i]);
  return drawn;
}

Json Encoding::Decode(const Point& point) const { return ConfigurationOf(space_, DrawnAt(point)); }

std::optional<Point> Encoding::Encode(const Json& params) const {
  Point point;
  point.reserve(axes_.size());
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    if (IsConditional(i) && !Exists(i, point)) {
      point.push_back(axis.Snap(0.5));
      continue;
    }
    const Json* value = ValueAtPath(params, axis.variable().path);
    if (value == nullptr) return std::nullopt;
    std::optional<double> coordinate = axis.Encode(*value);
    if (!coordinate.has_value() && HasConditions()) {
      const size_t place = PlaceOfValue(space_, variable_[i], *value);
      const auto& values = axis.variable().domain.values;
      if (place < values.size()) coordinate = axis.CoordinateOf(place);
    }
    if (!coordinate.has_value()) return std::nullopt;
    point.push_back(*coordinate);
  }
  return point;
}

Point Encoding::Snap(Point point) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    point[i] = axes_[i].Snap(i < steady_ || Exists(i, point) ? point[i] : 0.5);
  return point;
}

}  // namespace rt
