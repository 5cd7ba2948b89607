// The functions of analysis that models need, made of additions, multiplications, divisions and
// square roots alone. IEEE 754 rounds these the same way everywhere, so an answer recomputes to the
// bit on another machine; the C library's exp and log differ between processors in the last bit.
//
// Pure; any thread; nothing fails. Include it only in folders that are built with
// -ffp-contract=off: a fused multiplication and addition rounds once instead of twice.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace rt {

// e^x within 2 units in the last place; 0 below -708, infinity above 709.
inline double Exp(double x) {
  if (!(x > -708)) return x < 0 ? 0 : x;
  if (x > 709) return HUGE_VAL;
  // x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, the first with 32 trailing zero bits.
  const double k = std::floor(x * 1.4426950408889634 + 0.5);
  const double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
  double sum = 1.0 / 6227020800.0;  // The Taylor series to r^13 / 13!.
  for (const double inverse :
       {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0})
    sum = sum * r + inverse;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(k) + 1023) << 52);
}

// The natural logarithm of a normal number within 2 units in the last place. -infinity for 0 and
// for subnormal numbers, NaN for what is negative or NaN.
inline double Log(double x) {
  if (!(x >= 0)) return std::nan("");
  if (x < 0x1p-1022) return -HUGE_VAL;
  if (x > 0x1.fffffffffffffp+1023) return x;
  // x = 2^k m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1).
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  double k = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    k += 1;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 23;
  for (const double inverse : {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                               1.0 / 7, 1.0 / 5, 1.0 / 3})
    sum = sum * z + inverse;
  return k * 0x1.62e42fee00000p-1 + (2 * s + (2 * s * z * sum + k * 0x1.a39ef35793c76p-33));
}

// The standard normal's distribution function, with an absolute error below 1e-15. Source: Hart,
// "Computer Approximations", 1968, algorithm 5666, as given by West, "Better approximations to
// cumulative normal functions", Wilmott magazine, 2005.
double NormalCdf(double z);

// The inverse of NormalCdf for p in (0, 1), with a relative error below 1e-15; p is moved into
// [1e-300, 1 - 2^-53]. Source: Wichura, algorithm AS 241 (PPND16), Applied Statistics 37, 1988.
double NormalQuantile(double p);

}  // namespace rt
