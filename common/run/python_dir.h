// Where the Python package of this installation lies.
#pragma once

#include <string>

namespace rt {

// The directory that holds `rt/`, for PYTHONPATH: RT_PYTHON_DIR, the source tree above a build, or
// share/rt/python beside `bin_dir`. Empty when there is none.
std::string FindPythonDir(const std::string& bin_dir);

}  // namespace rt
