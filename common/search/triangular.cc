#include "common/search/triangular.h"

#include <algorithm>
#include <cmath>

namespace rt {
namespace {

// Four columns at once, so that `target` is loaded and stored a quarter as often.
void AddColumns(double* target, const double* columns, size_t n, const double* factors, size_t from,
                size_t to) {
  const double *c0 = columns, *c1 = columns + n, *c2 = columns + 2 * n, *c3 = columns + 3 * n;
  const double f0 = factors[0], f1 = factors[1], f2 = factors[2], f3 = factors[3];
  for (size_t i = from; i < to; ++i)
    target[i] = (((target[i] + f0 * c0[i]) + f1 * c1[i]) + f2 * c2[i]) + f3 * c3[i];
}

void AddColumn(double* target, const double* column, double factor, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) target[i] += factor * column[i];
}

}  // namespace

double Dot(const double* a, const double* b, size_t count) {
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    s0 += a[i] * b[i];
    s1 += a[i + 1] * b[i + 1];
    s2 += a[i + 2] * b[i + 2];
    s3 += a[i + 3] * b[i + 3];
  }
  for (; i < count; ++i) s0 += a[i] * b[i];
  return (s0 + s1) + (s2 + s3);
}

bool FactoriseLower(std::vector<double>& matrix, size_t n) {
  double* a = matrix.data();
  for (size_t j = 0; j < n; ++j) {
    double* column = a + j * n;
    size_t k = 0;
    for (; k + 4 <= j; k += 4) {
      const double factors[4] = {-a[k * n + j], -a[(k + 1) * n + j], -a[(k + 2) * n + j],
                                 -a[(k + 3) * n + j]};
      AddColumns(column, a + k * n, n, factors, j, n);
    }
    for (; k < j; ++k) AddColumn(column, a + k * n, -a[k * n + j], j, n);
    if (!(column[j] > 0)) return false;
    const double inverse = 1 / std::sqrt(column[j]);
    for (size_t i = j; i < n; ++i) column[i] *= inverse;
  }
  return true;
}

std::vector<double> InverseOfLower(const std::vector<double>& lower, size_t n) {
  std::vector<double> inverse(n * n, 0);
  const double* l = lower.data();
  for (size_t j = 0; j < n; ++j) {
    double* x = inverse.data() + j * n;
    x[j] = 1;
    for (size_t k = j; k < n;) {
      const size_t block = std::min<size_t>(4, n - k);
      double factors[4] = {};
      for (size_t b = 0; b < block; ++b) {
        x[k + b] /= l[(k + b) * n + k + b];
        factors[b] = -x[k + b];
        AddColumn(x, l + (k + b) * n, factors[b], k + b + 1, k + block);
      }
      if (block == 4) AddColumns(x, l + k * n, n, factors, k + 4, n);
      k += block;
    }
  }
  return inverse;
}

std::vector<double> TransposedTimes(const std::vector<double>& lower, size_t n) {
  std::vector<double> rows(n * n);  // The transpose, so that a row is contiguous.
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i) rows[i * n + j] = lower[j * n + i];
  std::vector<double> product(n * n, 0);
  for (size_t j = 0; j < n; ++j) {
    double* column = product.data() + j * n;
    size_t k = j;
    for (; k + 4 <= n; k += 4) {
      const double factors[4] = {rows[k * n + j], rows[(k + 1) * n + j], rows[(k + 2) * n + j],
                                 rows[(k + 3) * n + j]};
      AddColumns(column, rows.data() + k * n, n, factors, j, k + 4);
    }
    for (; k < n; ++k) AddColumn(column, rows.data() + k * n, rows[k * n + j], j, k + 1);
  }
  return product;
}

std::vector<double> LowerTimes(const std::vector<double>& lower, const std::vector<double>& x) {
  const size_t n = x.size();
  std::vector<double> product(n, 0);
  size_t j = 0;
  for (; j + 4 <= n; j += 4) {
    for (size_t b = 0; b < 3; ++b)
      AddColumn(product.data(), lower.data() + (j + b) * n, x[j + b], j + b, j + 3);
    AddColumns(product.data(), lower.data() + j * n, n, x.data() + j, j + 3, n);
  }
  for (; j < n; ++j) AddColumn(product.data(), lower.data() + j * n, x[j], j, n);
  return product;
}

std::vector<double> TransposedTimes(const std::vector<double>& lower,
                                    const std::vector<double>& x) {
  const size_t n = x.size();
  std::vector<double> product(n);
  for (size_t j = 0; j < n; ++j) product[j] = Dot(lower.data() + j * n + j, x.data() + j, n - j);
  return product;
}

}  // namespace rt
