// Values of quantised variables, as every search algorithm writes them.
#pragma once

#include <cmath>

namespace rt {

// k * q without the noise of the product: the double nearest to k / (1/q) when 1/q is whole.
inline double QuantumValue(double k, double q) {
  const double inverse = std::nearbyint(1 / q);
  if (q < 1 && std::abs(inverse * q - 1) < 1e-12) return k / inverse;
  return k * q;
}

}  // namespace rt
