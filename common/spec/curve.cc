#include "common/spec/curve.h"

#include <algorithm>
#include <cmath>

#include "common/base/limits.h"

namespace rt {
namespace {

// Leaves the point out that is nearest to its neighbours. The first and the last point stay.
void Thin(std::vector<CurvePoint>& curve) {
  size_t nearest = 1;
  const auto span = [&](size_t i) { return curve[i + 1].time - curve[i - 1].time; };
  for (size_t i = 2; i + 1 < curve.size(); ++i)
    if (span(i) < span(nearest)) nearest = i;
  curve.erase(curve.begin() + static_cast<std::ptrdiff_t>(nearest));
}

}  // namespace

void AddToCurve(const CurveRow& row, std::vector<CurvePoint>& curve) {
  while (!curve.empty() && curve.back().time >= row.time) curve.pop_back();
  CurvePoint point{.time = row.time};
  if (!curve.empty()) {
    point.sum = curve.back().sum;
    point.count = curve.back().count;
  }
  if (!std::isnan(row.value)) {
    point.sum += row.value;
    ++point.count;
  }
  curve.push_back(point);
  if (curve.size() > limits::kCurvePointsMax) Thin(curve);
}

double MeanUpTo(double time, const std::vector<CurvePoint>& curve) {
  const auto beyond =
      std::upper_bound(curve.begin(), curve.end(), time,
                       [](double t, const CurvePoint& point) { return t < point.time; });
  if (beyond == curve.begin()) return NAN;
  const CurvePoint& newest = *(beyond - 1);
  return newest.count == 0 ? NAN : newest.sum / static_cast<double>(newest.count);
}

}  // namespace rt
