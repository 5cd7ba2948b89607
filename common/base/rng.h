// Counter-based randomness: the value is a function of (seed, stream, index), so a trial's draw
// does not depend on how many others were drawn before it, and a replay needs no generator state.
// Source: the SplitMix64 finaliser (Steele, Lea, Flood 2014) applied to a mixed counter.
#pragma once

#include <cmath>
#include <cstdint>

namespace rt {

inline uint64_t Mix64(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// A stream of draws named by (seed, stream). Copyable; cheap to make.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : key_(Mix64(Mix64(seed) ^ (stream * 2 + 1))) {}

  uint64_t Next() { return Mix64(key_ ^ Mix64(counter_++)); }
  // Uniform in [0, bound); bound > 0. Rejection keeps it exact.
  uint64_t Below(uint64_t bound) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t draw = Next();
    while (draw >= limit) draw = Next();
    return draw % bound;
  }
  // Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // Standard normal, by Box and Muller; two draws each.
  double Normal() {
    double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
    return radius * std::cos(6.283185307179586 * Uniform());
  }
  bool Chance(double probability) { return Uniform() < probability; }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace rt
