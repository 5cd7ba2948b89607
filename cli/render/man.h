// Manual pages from what --help says. Pure.
#pragma once

#include <string>
#include <vector>

namespace rt {

struct ManPage {
  std::string command;  // "rt exp best"
  std::string summary;
  std::string help;     // As --help prints it.
  std::vector<std::string> see_also;  // Other commands, as above.
};
std::string ManFileName(const std::string& command);  // "rt-exp-best.1"
std::string RenderMan(const ManPage& page);           // In the man macros of groff.

}  // namespace rt
