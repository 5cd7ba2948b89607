// Dense lower triangular matrices for Gaussian processes of a few hundred points. Every sum has one
// order, which no vector width and no cache size changes, so that an answer recomputes to the bit
// on another machine; a linear algebra library chooses its order by the processor.
//
// Matrices are square and stored by columns: element (row, column) of n is at [column * n + row].
// Elements above the diagonal are neither read nor written, unless a comment says so. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace rt {

// The sum of a[i] * b[i].
double Dot(const double* a, const double* b, size_t count);

// Replaces the symmetric matrix A by L with L L' = A. False: A is not positive definite.
bool FactoriseLower(std::vector<double>& matrix, size_t n);

// The inverse of L; zero above the diagonal.
std::vector<double> InverseOfLower(const std::vector<double>& lower, size_t n);

// M' M for a lower triangular M that is zero above the diagonal: with M the inverse of L this is
// the inverse of L L'.
std::vector<double> TransposedTimes(const std::vector<double>& lower, size_t n);

// M x for a lower triangular M.
std::vector<double> LowerTimes(const std::vector<double>& lower, const std::vector<double>& x);
// M' x for a lower triangular M.
std::vector<double> TransposedTimes(const std::vector<double>& lower, const std::vector<double>& x);

}  // namespace rt
