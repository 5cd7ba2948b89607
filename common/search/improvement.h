// Expected improvement over the lowest value, as its logarithm, which neither underflows nor
// becomes flat far from good points. Sources: Jones et al., "Efficient global optimization of
// expensive black-box functions", 1998; Ament et al., "Unexpected improvements to expected
// improvement for Bayesian optimization", 2023 (the logarithm). Pure; equal to the bit on every
// machine.
#pragma once

namespace rt {

// h = phi(z) + z Phi(z): what a standard normal variable is expected to fall below z by.
struct Hope {
  double logarithm = 0;          // ln h,
  double mass = 0, density = 0;  // Phi / h and phi / h: the derivatives of ln h need them.
};

Hope HopeAt(double z);

// ln Phi(z), the chance that a standard normal variable is below z, and its derivative.
struct Chance {
  double logarithm = 0, slope = 0;
};

Chance ChanceAt(double z);

}  // namespace rt
