// A search space as a unit cube, which is what models see: every variable that can vary is an axis,
// a configuration is a point. Decoding gives exactly the values that random search may draw:
// bounds, quanta and types are those of common/spec/space.h.
//
// A coordinate is uniform in [0, 1] when the variable is drawn at random: linear, logarithmic, or
// the distribution function of a normal variable. Integers and quantised variables divide [0, 1]
// into cells around their values, in order; a choice among three or more different numbers is
// ordered by value, any other choice is a set of categories with cells of one width.
//
// A variable that some configurations lack is an axis too. Where it does not exist, its coordinate
// is the one nearest to the middle.
//
// Pure and immutable; owned by whoever runs a model, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/spec/space.h"

namespace rt {

// One coordinate in [0, 1] per axis.
using Point = std::vector<double>;

// A variable with at least two possible values.
class Axis {
 public:
  enum class Kind {
    kReal,        // Any number between bounds, or more than 2^53 steps.
    kSteps,       // Ordered values: integers, quanta, a choice of numbers.
    kCategories,  // Values without an order.
  };

  // nullopt when the variable has one value only, which `Constant` tells then.
  static std::optional<Axis> Of(const Variable& variable);
  static Json Constant(const Variable& variable);

  Kind kind() const { return kind_; }
  // The number of values; 0 for kReal.
  uint64_t count() const { return count_; }
  const Variable& variable() const { return variable_; }

  // The number of the cell that contains `coordinate`, below count(). For kSteps and kCategories.
  uint64_t CellOf(double coordinate) const;
  // The middle of a cell.
  double Centre(uint64_t cell) const;
  double Width(uint64_t cell) const;
  // The middle of the coordinate's cell; for kReal the coordinate, moved into [0, 1].
  double Snap(double coordinate) const;

  Json Decode(double coordinate) const;
  // The same, with the place in the values of a choice.
  Drawn DrawnAt(double coordinate) const;
  bool is_choice() const { return !order_.empty(); }
  // Of a choice: the value of the coordinate's cell, and its place in the values.
  size_t PlaceAt(double coordinate) const { return order_[CellOf(coordinate)]; }
  const Json& ValueAt(double coordinate) const {
    return variable_.domain.values[PlaceAt(coordinate)];
  }
  // Of a choice: the middle of the cell of this place in its values.
  double CoordinateOf(size_t place) const;
  // nullopt when the variable cannot have this type, or when a category is unknown. A number
  // outside the bounds takes the nearest coordinate.
  std::optional<double> Encode(const Json& value) const;

 private:
  enum class Scale { kLinear, kLog, kNormal };

  explicit Axis(const Variable& variable) : variable_(variable) {}
  void SetSteps(double first, double last, double step, double offset);
  void SetChoice();
  double Unit(double value) const;         // From the variable's value to the coordinate.
  double Value(double coordinate) const;   // And back.
  double StepOf(double coordinate) const;  // The number of the step, not of its cell.
  double Edge(double cell) const;          // The coordinate at which a cell begins.

  Variable variable_;
  Kind kind_ = Kind::kReal;
  Scale scale_ = Scale::kLinear;
  uint64_t count_ = 0;
  // With steps, step k in [first_, last_] is the value k * step_, and its cell begins at
  // (k - offset_) * step_. Without, step_ is 0.
  double first_ = 0, last_ = 0, step_ = 0, offset_ = 0;
  bool integer_ = false;       // Decodes to a JSON integer.
  double low_ = 0, high_ = 1;  // What the coordinates 0 and 1 are, logarithms for kLog.
  std::vector<size_t> order_;  // Of a choice: the places in `values`, cell by cell.
};

class Encoding {
 public:
  // Fails when the space has a grid, whose points a model does not choose.
  static absl::StatusOr<Encoding> Of(const Space& space);

  const std::vector<Axis>& axes() const { return axes_; }
  // The number of different configurations; UINT64_MAX when there are as many or more.
  uint64_t Configurations() const;
  // Whether every axis has cells, so that a configuration may come twice.
  bool IsDiscrete() const;
  // Whether some configurations lack this axis; those that all have come first.
  bool IsConditional(size_t axis) const { return !conditions_[axis].empty(); }
  bool HasConditions() const { return steady_ < axes_.size(); }
  // Taken compares configurations instead of points if this is set, as
  // ExperimentSpec::compares_configurations says.
  bool compares_configurations() const { return compares_configurations_; }
  void CompareConfigurations() { compares_configurations_ = true; }
  // Whether the point has the axis; of the coordinates before it, only.
  bool Exists(size_t axis, const Point& point) const;
  // By axis.
  std::vector<bool> Existing(const Point& point) const;

  // `point` has a coordinate per axis. The result is a configuration as the trial receives it.
  Json Decode(const Point& point) const;
  // What was drawn for each variable of the space, also for those that do not exist.
  std::vector<Drawn> DrawnAt(const Point& point) const;
  // nullopt when `params` lacks a variable or has a value that is no point of this space.
  std::optional<Point> Encode(const Json& params) const;
  // The point that Encode(Decode(point)) gives, but for the rounding of real coordinates. An axis
  // that does not exist has the coordinate nearest to the middle.
  Point Snap(Point point) const;

 private:
  // A condition on another axis.
  struct AxisCondition {
    size_t axis;
    Condition condition;
  };

  Space space_;
  std::vector<Axis> axes_;
  std::vector<size_t> variable_;  // Of an axis, in the space.
  std::vector<std::vector<AxisCondition>> conditions_;
  size_t steady_ = 0;         // So many axes, the first ones, exist in every configuration.
  bool compares_configurations_ = false;
  std::vector<Drawn> drawn_;  // Of the variables with one value.
};

}  // namespace rt
