// A trial in C++: gradient descent with momentum on Rosenbrock's valley, reported through the
// trial's socket by one header that needs no library.
//   c++ -std=c++17 -O2 -I ../.. -o descend descend.cc && rt submit search.yaml
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/run/trial_client.h"  // <rt/trial_client.h> where rt is installed.

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: descend LEARNING_RATE MOMENTUM\n");
    return 2;
  }
  const double rate = std::atof(argv[1]), momentum = std::atof(argv[2]);
  double x = -1.2, y = 1, speed_x = 0, speed_y = 0;
  try {
    rt::TrialClient trial;
    for (int epoch = 1; epoch <= 81; ++epoch) {
      double loss = 0;
      for (int step = 0; step < 100; ++step) {
        const double valley = y - x * x;
        loss = (1 - x) * (1 - x) + 100 * valley * valley;
        speed_x = momentum * speed_x - rate * (-2 * (1 - x) - 400 * x * valley);
        speed_y = momentum * speed_y - rate * (200 * valley);
        x += speed_x;
        y += speed_y;
      }
      if (!std::isfinite(loss)) {
        std::fprintf(stderr, "diverged in epoch %d\n", epoch);
        loss = 1e300;
      }
      const auto verdict = trial.Report({{"loss", loss}, {"x", x}, {"y", y}});
      if (verdict.stop) {
        std::printf("stopped after epoch %d: %s\n", epoch, verdict.reason.c_str());
        return 0;
      }
    }
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
