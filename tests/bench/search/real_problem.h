// The trainings of real_work.py as problems of bench_fidelity: the epochs are trained by
// real_epochs.py, and only their number counts. Minimised: the values are errors. Linux only.
#pragma once

#include <string>

#include "search/fidelity_problems.h"

namespace rt::bench {

// `task` is one of real_work.py's, which `python` can import.
FidelityProblem RealProblem(const std::string& task, const std::string& python);

}  // namespace rt::bench
