// Which results a model looks at when there are more than it can use. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace rt {

// The places of at most `most` of the values, ascending: all of them, or half of `most` the lowest
// and the others evenly by rank. A value that is not finite is above all others; equal ones are in
// the order of their places.
std::vector<size_t> BestAndEven(const std::vector<double>& values, size_t most);

}  // namespace rt
