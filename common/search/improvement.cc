#include "common/search/improvement.h"

#include <cmath>

#include "common/search/elementary.h"

namespace rt {
namespace {

constexpr double kLogSqrtTau = 0.9189385332046727;  // ln sqrt(2 pi)
// Below this the difference of phi and -z Phi is lost to rounding, and the asymptotic series holds.
constexpr double kFarBelow = -25;

}  // namespace

Hope HopeAt(double z) {
  const double log_density = -0.5 * z * z - kLogSqrtTau;
  if (z > kFarBelow) {
    const double density = Exp(log_density), mass = NormalCdf(z);
    const double hope = density + z * mass;
    if (hope > 0) return {Log(hope), mass / hope, density / hope};
  }
  const double square = z * z;
  return {log_density - 2 * Log(std::abs(z)) + Log(1 - 3 / square),
          (1 - 1 / square) * std::abs(z) / (1 - 3 / square), square / (1 - 3 / square)};
}

Chance ChanceAt(double z) {
  constexpr double kTail = -6;  // Below it the series holds to 1e-4.
  if (z > kTail) {
    const double mass = NormalCdf(z);
    return {Log(mass), Exp(-0.5 * z * z - kLogSqrtTau) / mass};
  }
  const double square = z * z, series = 1 - 1 / square + 3 / (square * square);
  return {-0.5 * square - kLogSqrtTau - Log(-z) + Log(series), -z / series};
}

}  // namespace rt
