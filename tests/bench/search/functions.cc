#include "search/functions.h"

#include <cmath>
#include <numbers>

namespace rt::bench {
namespace {

using std::numbers::pi;

double Square(double x) { return x * x; }

double Branin(const std::vector<double>& x) {
  const double bend = x[1] - 5.1 / (4 * pi * pi) * x[0] * x[0] + 5 / pi * x[0] - 6;
  return bend * bend + 10 * (1 - 1 / (8 * pi)) * std::cos(x[0]) + 10;
}

constexpr double kHartmannAlpha[4] = {1, 1.2, 3, 3.2};
constexpr double kHartmannA3[4][3] = {{3, 10, 30}, {.1, 10, 35}, {3, 10, 30}, {.1, 10, 35}};
constexpr double kHartmannP3[4][3] = {
    {3689, 1170, 2673}, {4699, 4387, 7470}, {1091, 8732, 5547}, {381, 5743, 8828}};
constexpr double kHartmannA6[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                      {0.05, 10, 17, 0.1, 8, 14},
                                      {3, 3.5, 1.7, 10, 17, 8},
                                      {17, 8, 0.05, 10, 0.1, 14}};
constexpr double kHartmannP6[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                                      {2329, 4135, 8307, 3736, 1004, 9991},
                                      {2348, 1451, 3522, 2883, 3047, 6650},
                                      {4047, 8828, 8732, 5743, 1091, 381}};

template <size_t D>
double Hartmann(const double (&a)[4][D], const double (&p)[4][D], const std::vector<double>& x,
                double bias = 0) {
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) {
    double exponent = 0;
    for (size_t j = 0; j < D; ++j) exponent += a[i][j] * Square(x[j] - 1e-4 * p[i][j]);
    sum -= (kHartmannAlpha[i] - bias) * std::exp(-exponent);
  }
  return sum;
}

double Rosenbrock(const std::vector<double>& x) {
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i)
    sum += 100 * Square(x[i + 1] - x[i] * x[i]) + Square(1 - x[i]);
  return sum;
}

double Ackley(const std::vector<double>& x) {
  const double n = static_cast<double>(x.size());
  double squares = 0, waves = 0;
  for (double each : x) {
    squares += each * each;
    waves += std::cos(2 * pi * each);
  }
  return -20 * std::exp(-0.2 * std::sqrt(squares / n)) - std::exp(waves / n) + 20 + std::exp(1.0);
}

double Levy(const std::vector<double>& x) {
  const auto w = [&](size_t i) { return 1 + (x[i] - 1) / 4; };
  const size_t last = x.size() - 1;
  double sum = Square(std::sin(pi * w(0)));
  for (size_t i = 0; i < last; ++i)
    sum += Square(w(i) - 1) * (1 + 10 * Square(std::sin(pi * w(i) + 1)));
  return sum + Square(w(last) - 1) * (1 + Square(std::sin(2 * pi * w(last))));
}

double Rastrigin(const std::vector<double>& x) {
  double sum = 10 * static_cast<double>(x.size());
  for (double each : x) sum += each * each - 10 * std::cos(2 * pi * each);
  return sum;
}

double Sphere(const std::vector<double>& x) {
  double sum = 0;
  for (double each : x) sum += each * each;
  return sum;
}

Function Cube(std::string name, size_t axes, double lower, double upper, double minimum,
              std::function<double(const std::vector<double>&)> value) {
  return {std::move(name), std::vector<double>(axes, lower), std::vector<double>(axes, upper),
          minimum, std::move(value)};
}

std::vector<Function> MakeFunctions() {
  using X = const std::vector<double>&;
  return {
      {"branin2", {-5, 0}, {10, 15}, 0.397887357729739, Branin},
      Cube("hartmann3", 3, 0, 1, -3.86278214782076,
           [](X x) { return Hartmann(kHartmannA3, kHartmannP3, x); }),
      Cube("hartmann6", 6, 0, 1, -3.32236801141551,
           [](X x) { return Hartmann(kHartmannA6, kHartmannP6, x); }),
      Cube("rosenbrock2", 2, -5, 10, 0, Rosenbrock),
      Cube("rosenbrock4", 4, -5, 10, 0, Rosenbrock),
      Cube("ackley5", 5, -32.768, 32.768, 0, Ackley),
      Cube("levy4", 4, -10, 10, 0, Levy),
      Cube("rastrigin4", 4, -5.12, 5.12, 0, Rastrigin),
      Cube("sphere10", 10, -5.12, 5.12, 0, Sphere),
  };
}

}  // namespace

double HartmannAt(const std::vector<double>& x, double bias) {
  return x.size() == 3 ? Hartmann(kHartmannA3, kHartmannP3, x, bias)
                       : Hartmann(kHartmannA6, kHartmannP6, x, bias);
}

const std::vector<Function>& Functions() {
  static const std::vector<Function> functions = MakeFunctions();
  return functions;
}

}  // namespace rt::bench
