#include "common/search/elementary.h"

#include <algorithm>

namespace rt {
namespace {

// Coefficients from the highest power to the lowest.
template <size_t N>
double Polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[0];
  for (size_t i = 1; i < N; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// Of Hart's ratio: numerator and denominator.
constexpr double kHartP[] = {3.52624965998911e-02, 0.700383064443688, 6.37396220353165,
                             33.912866078383,      112.079291497871,  221.213596169931,
                             220.206867912376};
constexpr double kHartQ[] = {8.83883476483184e-02, 1.75566716318264, 16.064177579207,
                             86.7807322029461,     296.564248779674, 637.333633378831,
                             793.826512519948,     440.413735824752};

// Of Wichura's three ratios: near the middle, in the tails, far in the tails.
constexpr double kMiddleP[] = {2.5090809287301226727e+3, 3.3430575583588128105e+4,
                               6.7265770927008700853e+4, 4.5921953931549871457e+4,
                               1.3731693765509461125e+4, 1.9715909503065514427e+3,
                               1.3314166789178437745e+2, 3.3871328727963666080e+0};
constexpr double kMiddleQ[] = {5.2264952788528545610e+3, 2.8729085735721942674e+4,
                               3.9307895800092710610e+4, 2.1213794301586595867e+4,
                               5.3941960214247511077e+3, 6.8718700749205790830e+2,
                               4.2313330701600911252e+1, 1.0};
constexpr double kTailP[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                             2.41780725177450611770e-1, 1.27045825245236838258e+0,
                             3.64784832476320460504e+0, 5.76949722146069140550e+0,
                             4.63033784615654529590e+0, 1.42343711074968357734e+0};
constexpr double kTailQ[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                             1.51986665636164571966e-2, 1.48103976427480074590e-1,
                             6.89767334985100004550e-1, 1.67638483018380384940e+0,
                             2.05319162663775882187e+0, 1.0};
constexpr double kFarP[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                            1.24266094738807843860e-3, 2.65321895265761230930e-2,
                            2.96560571828504891230e-1, 1.78482653991729133580e+0,
                            5.46378491116411436990e+0, 6.65790464350110377720e+0};
constexpr double kFarQ[] = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                            1.84631831751005468180e-5,  7.86869131145613259100e-4,
                            1.48753612908506148525e-2,  1.36929880922735805310e-1,
                            5.99832206555887937690e-1,  1.0};

}  // namespace

double NormalCdf(double z) {
  const double x = std::abs(z);
  double tail = 0;
  if (x < 7.07106781186547) {
    tail = Exp(-0.5 * x * x) * Polynomial(kHartP, x) / Polynomial(kHartQ, x);
  } else if (x < 37) {
    const double fraction = x + 1 / (x + 2 / (x + 3 / (x + 4 / (x + 0.65))));
    tail = Exp(-0.5 * x * x) / fraction / 2.5066282746310002;
  }
  return z > 0 ? 1 - tail : tail;
}

double NormalQuantile(double p) {
  p = std::clamp(p, 1e-300, 1 - 0x1p-53);
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kMiddleP, r) / Polynomial(kMiddleQ, r);
  }
  const double r = std::sqrt(-Log(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? Polynomial(kTailP, r - 1.6) / Polynomial(kTailQ, r - 1.6)
                          : Polynomial(kFarP, r - 5) / Polynomial(kFarQ, r - 5);
  return q < 0 ? -z : z;
}

}  // namespace rt
