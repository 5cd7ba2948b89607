// Whether two rungs rank their trials alike: what low fidelities say of high ones. Used by the
// schedulers of successive halving. Pure.
#pragma once

#include <optional>
#include <vector>

#include "common/decide/scheduler.h"

namespace rt {

// A trial that two rungs have in common, with its values there.
struct CommonTrial {
  double lower = 0;
  double upper = 0;
};
// Without those whose value is not a number.
std::vector<CommonTrial> CommonOf(const RungMembers& lower, const RungMembers& upper);

// Spearman's rank correlation of the values; equal ones share their mean rank. nullopt: there are
// fewer than two trials, or all values of a rung are equal.
std::optional<double> RankCorrelation(const std::vector<CommonTrial>& trials);

// Soft ranking (Bohdal et al. 2023): a trial may take the place of any other whose lower value is
// within `tolerance` standard deviations of the lower values. Whether one takes another place.
bool RanksDiffer(const std::vector<CommonTrial>& trials, double tolerance);

// The first of the rungs of one bracket, ascending, that says something of the next one: while at
// least 3 `factor` trials are common to a rung and the next and their ranks correlate by less than
// 0.2, the rung is passed over. Its milestone; 0: there are no rungs.
double FirstTellingRung(const std::vector<const RungMembers*>& rungs, double factor);

// The rungs of that bracket, ascending.
std::vector<const RungMembers*> RungsOf(const SearchReview& review, uint32_t bracket);

}  // namespace rt
