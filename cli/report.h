// `rt report`: one row from a shell trial. Links nothing but the C++ library, because a trial may
// call it in a loop: see front.cc.
#pragma once

#include <string>
#include <vector>

namespace rt {

struct ReportRequest {
  std::vector<std::string> assignments;  // "loss=0.5"
  std::string step;                      // A number, or empty.
  std::string checkpoint;                // A path, or empty.
  bool wait = false;                     // For the head's decision, which is printed.
  bool json = false;                     // Errors and answers as JSON.
};

// The exit code: 0 reported, 1 refused, 2 usage, 4 the worker cannot be reached. Prints errors.
int Report(const ReportRequest& request);

}  // namespace rt
