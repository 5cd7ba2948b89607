#include "common/search/sobol.h"

#include <array>

#include "common/base/rng.h"

namespace rt {
namespace {

constexpr size_t kBits = 32;
constexpr size_t kDegreeMax = 9;

// A primitive polynomial over {0, 1}: x^degree + (the bits of `middle`, from the highest) + 1, and
// the first `degree` direction numbers.
struct Direction {
  unsigned degree;
  unsigned middle;
  uint32_t initial[kDegreeMax];
};

// Dimensions 2 to 64 of Joe and Kuo's file new-joe-kuo-6.21201 (d, s, a, m_i), in its order.
constexpr Direction kDirections[kSobolDimensions - 1] = {
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}},
    {7, 4, {1, 3, 7, 13, 13, 15, 69}},
    {7, 7, {1, 1, 3, 13, 7, 35, 63}},
    {7, 8, {1, 3, 5, 9, 1, 25, 53}},
    {7, 14, {1, 3, 1, 13, 9, 35, 107}},
    {7, 19, {1, 3, 1, 5, 27, 61, 31}},
    {7, 21, {1, 1, 5, 11, 19, 41, 61}},
    {7, 28, {1, 3, 5, 3, 3, 13, 69}},
    {7, 31, {1, 1, 7, 13, 1, 19, 1}},
    {7, 32, {1, 3, 7, 5, 13, 19, 59}},
    {7, 37, {1, 1, 3, 9, 25, 29, 41}},
    {7, 41, {1, 3, 5, 13, 23, 1, 55}},
    {7, 42, {1, 3, 7, 3, 13, 59, 17}},
    {7, 50, {1, 3, 1, 3, 5, 53, 69}},
    {7, 55, {1, 1, 5, 5, 23, 33, 13}},
    {7, 56, {1, 1, 7, 7, 1, 61, 123}},
    {7, 59, {1, 1, 7, 9, 13, 61, 49}},
    {7, 62, {1, 3, 3, 5, 3, 55, 33}},
    {8, 14, {1, 3, 1, 15, 31, 13, 49, 245}},
    {8, 21, {1, 3, 5, 15, 31, 59, 63, 97}},
    {8, 22, {1, 3, 1, 11, 11, 11, 77, 249}},
    {8, 38, {1, 3, 1, 11, 27, 43, 71, 9}},
    {8, 47, {1, 1, 7, 15, 21, 11, 81, 45}},
    {8, 49, {1, 3, 7, 3, 25, 31, 65, 79}},
    {8, 50, {1, 3, 1, 1, 19, 11, 3, 205}},
    {8, 52, {1, 1, 5, 9, 19, 21, 29, 157}},
    {8, 56, {1, 3, 7, 11, 1, 33, 89, 185}},
    {8, 67, {1, 3, 3, 3, 15, 9, 79, 71}},
    {8, 70, {1, 3, 7, 11, 15, 39, 119, 27}},
    {8, 84, {1, 1, 3, 1, 11, 31, 97, 225}},
    {8, 97, {1, 1, 1, 3, 23, 43, 57, 177}},
    {8, 103, {1, 3, 7, 7, 17, 17, 37, 71}},
    {8, 115, {1, 3, 1, 5, 27, 63, 123, 213}},
    {8, 122, {1, 1, 3, 5, 11, 43, 53, 133}},
    {9, 8, {1, 3, 5, 5, 29, 17, 47, 173, 479}},
    {9, 13, {1, 3, 3, 11, 3, 1, 109, 9, 69}},
    {9, 16, {1, 1, 1, 5, 17, 39, 23, 5, 343}},
    {9, 22, {1, 3, 1, 5, 25, 15, 31, 103, 499}},
    {9, 25, {1, 1, 1, 11, 11, 17, 63, 105, 183}},
    {9, 44, {1, 1, 5, 11, 9, 29, 97, 231, 363}},
    {9, 47, {1, 1, 5, 15, 19, 45, 41, 7, 383}},
    {9, 52, {1, 3, 7, 7, 31, 19, 83, 137, 221}},
    {9, 55, {1, 1, 1, 3, 23, 15, 111, 223, 83}},
    {9, 59, {1, 1, 5, 13, 31, 15, 55, 25, 161}},
    {9, 62, {1, 1, 3, 13, 25, 47, 39, 87, 257}},
};

using Column = std::array<uint32_t, kBits>;

// What each bit of a point's number adds to the coordinate, bit 0 first.
constexpr std::array<Column, kSobolDimensions> Columns() {
  std::array<Column, kSobolDimensions> columns{};
  for (size_t bit = 0; bit < kBits; ++bit) columns[0][bit] = 1u << (kBits - 1 - bit);
  for (size_t d = 1; d < kSobolDimensions; ++d) {
    const Direction& direction = kDirections[d - 1];
    const size_t s = direction.degree;
    Column& column = columns[d];
    for (size_t i = 0; i < s; ++i) column[i] = direction.initial[i] << (kBits - 1 - i);
    for (size_t i = s; i < kBits; ++i) {
      column[i] = column[i - s] ^ (column[i - s] >> s);
      for (size_t k = 1; k < s; ++k)
        if ((direction.middle >> (s - 1 - k)) & 1) column[i] ^= column[i - k];
    }
  }
  return columns;
}

constexpr std::array<Column, kSobolDimensions> kColumns = Columns();

uint32_t SobolBits(uint32_t number, size_t dimension) {
  uint32_t bits = 0;
  for (size_t bit = 0; number != 0; ++bit, number >>= 1)
    if (number & 1) bits ^= kColumns[dimension % kSobolDimensions][bit];
  return bits;
}

// Flips each bit or not, as a hash of the key and of the bits above it says: a random permutation
// of the binary tree of intervals, so that evenness stays.
uint32_t OwenScramble(uint32_t bits, uint64_t key) {
  uint32_t scrambled = 0;
  for (size_t level = 0; level < kBits; ++level) {
    const uint64_t above = level == 0 ? 0 : bits >> (kBits - level);
    const uint32_t flip = static_cast<uint32_t>(Mix64(key ^ (above | uint64_t{1} << level)) >> 63);
    scrambled |= (((bits >> (kBits - 1 - level)) & 1) ^ flip) << (kBits - 1 - level);
  }
  return scrambled;
}

}  // namespace

double SobolCoordinate(uint64_t number, size_t dimension) {
  return SobolBits(static_cast<uint32_t>(number), dimension) * 0x1p-32;
}

std::vector<double> ScrambledSobol(uint64_t seed, uint64_t number, size_t dimensions) {
  const uint64_t base = Mix64(Mix64(seed) ^ 0x50b01u);  // Apart from other uses of the seed.
  std::vector<double> point(dimensions);
  uint32_t index = static_cast<uint32_t>(number);
  for (size_t d = 0; d < dimensions; ++d) {
    const uint64_t key = Mix64(base + d);
    // Scrambling a number permutes the runs of 2^k numbers, and those within each run.
    if (d > 0 && d % kSobolDimensions == 0)
      index = OwenScramble(static_cast<uint32_t>(number), ~key);
    point[d] = (OwenScramble(SobolBits(index, d), key) + 0.5) * 0x1p-32;
  }
  return point;
}

}  // namespace rt
