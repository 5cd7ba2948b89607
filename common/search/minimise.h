// The minimum of a smooth function in a box, near a start: L-BFGS with projection onto the box.
// Sources: Liu and Nocedal, "On the limited memory BFGS method", 1989; Bertsekas, "Projected Newton
// methods for optimization problems with simple constraints", 1982 (the step along the projected
// path). Pure but for the function that it is given; equal to the bit on every machine if that is.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace rt {

struct Box {
  std::vector<double> lower, upper;
};

struct MinimiseLimits {
  int iterations = 20;
  double gradient_min = 0.02;  // It ends where no free component of the gradient is larger.
};

// The value at `x`; writes the gradient. A value that is not finite, or very large, is a point at
// which the function cannot be computed.
using SmoothFunction =
    std::function<double(const std::vector<double>& x, std::vector<double>& gradient)>;

// Moves `x` into the box and to the minimum; returns the value there.
double Minimise(const SmoothFunction& function, const Box& box, const MinimiseLimits& limits,
                std::vector<double>& x);

}  // namespace rt
