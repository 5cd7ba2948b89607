// The command line of rt-worker.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/spec/resources.h"

namespace rt::worker {

struct Flags {
  std::string head;
  std::string token_file;
  std::string state_dir;
  std::string name;
  Resources resources;
  std::map<std::string, std::string> labels;
  bool help = false;
  bool version = false;
};
extern const char kUsage[];
// "--flag value" and "--flag=value". Without --resources: all cores and all memory.
absl::StatusOr<Flags> ParseFlags(int argc, char** argv);

}  // namespace rt::worker
