#include "common/run/python_dir.h"

#include <cstdlib>

#include "common/run/files.h"

namespace rt {

std::string FindPythonDir(const std::string& bin_dir) {
  const char* told = std::getenv("RT_PYTHON_DIR");
  if (told != nullptr && *told != 0) return told;
  for (const char* below : {"/../../../python", "/../share/rt/python"}) {
    std::string candidate = bin_dir + below;
    if (!Exists(candidate + "/rt/__init__.py")) continue;
    char resolved[4096];
    return ::realpath(candidate.c_str(), resolved) != nullptr ? std::string(resolved) : candidate;
  }
  return "";
}

}  // namespace rt
