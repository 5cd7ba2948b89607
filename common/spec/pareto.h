// Several objectives, all minimised: which points are better than others, and how much of the space
// a set of them dominates. Sources: Deb et al., "A fast and elitist multiobjective genetic
// algorithm: NSGA-II", 2002 (fronts, crowding); While et al., "A fast way of calculating exact
// hypervolumes", 2012 (the volume by exclusive parts). Pure; equal to the bit on every machine.
#pragma once

#include <cstddef>
#include <vector>

namespace rt {

using Values = std::vector<double>;  // One per objective.

// Whether `a` is no worse in any objective, and better in one.
bool Dominates(const Values& a, const Values& b);
// The points that no other one dominates, by index, ascending. A point with a value that is not a
// number is dominated by each that has none.
std::vector<size_t> FrontOf(const std::vector<Values>& points);
// A place for each point: 0 on the first front, and so on. Points of one front share a place, but
// for fronts of more than `together`: of these, those with the most space around them come first.
// After `ranked` points the others share the last place.
std::vector<double> PlacesOf(const std::vector<Values>& points, size_t together, size_t ranked);
// The volume between the points and `reference`, which counts points that are better than it in
// every objective. Time grows fast with the number of objectives above three.
double Hypervolume(std::vector<Values> points, const Values& reference);

}  // namespace rt
