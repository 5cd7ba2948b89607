// Scrambled Sobol points, which fill a cube more evenly than random ones: of the points 0 to
// 2^k - 1 (and of every later run of 2^k that begins at a multiple), each axis has exactly one in
// each of its 2^k equal intervals. A point is a pure function of (seed, number, dimension).
//
// Sources: Sobol, 1967; direction numbers of Joe and Kuo, "Constructing Sobol sequences with better
// two-dimensional projections", 2008 (file new-joe-kuo-6.21201); nested uniform scrambling of Owen,
// "Randomly permuted (t,m,s)-nets", 1995, with a hash of (seed, dimension, leading bits) for every
// bit, so that nothing is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rt {

// Dimensions with direction numbers of their own. Dimension d beyond takes those of d modulo this,
// with the order of the points shuffled anew (Burley, "Practical hash-based Owen scrambling",
// 2020): each axis stays as even as said above, pairs of such axes are as even as random points.
inline constexpr size_t kSobolDimensions = 64;

// Coordinate `dimension` of point `number` in [0, 1), unscrambled, with 32 bits. Numbers above
// 2^32 - 1 begin again.
double SobolCoordinate(uint64_t number, size_t dimension);

// The scrambled point: `dimensions` coordinates in (0, 1).
std::vector<double> ScrambledSobol(uint64_t seed, uint64_t number, size_t dimensions);

}  // namespace rt
