// The nine functions on which searches are compared: minimised, with a known minimum, in the boxes
// that are usual for them (Surjanovic and Bingham, "Virtual library of simulation experiments").
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rt::bench {

struct Function {
  std::string name;
  std::vector<double> lower, upper;
  double minimum;
  std::function<double(const std::vector<double>&)> value;
  size_t axes() const { return lower.size(); }
};

const std::vector<Function>& Functions();

// Hartmann's function of three or six numbers, with `bias` taken from each of its four weights.
double HartmannAt(const std::vector<double>& x, double bias);

}  // namespace rt::bench
