// A trial's metric over time, for schedulers that compare running means. The head keeps one for
// each trial where its scheduler asks for it, and Apply extends it from ReportsAccepted. Bounded:
// when a curve has too many points, the one that is nearest to its neighbours is left out, and a
// mean at its time is that of the next earlier point. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/fields.h"

namespace rt {

// A row: its value at that time, which may be NaN.
struct CurveRow {
  double time = 0;
  double value = 0;
  RT_FIELDS(CurveRow, time, value);
};

struct CurvePoint {
  double time = 0;
  double sum = 0;      // Of the values up to this time that are numbers,
  uint64_t count = 0;  // and how many those are.
  RT_FIELDS(CurvePoint, time, sum, count);
};

// Adds a row at the end. Points that are not before it are superseded: the trial has been restarted
// from an earlier checkpoint.
void AddToCurve(const CurveRow& row, std::vector<CurvePoint>& curve);

// The mean of the values up to `time`; NaN: there are none.
double MeanUpTo(double time, const std::vector<CurvePoint>& curve);

}  // namespace rt
