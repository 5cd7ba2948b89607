// What a job is: a driver script that the head owns and a node runs. It travels as JSON:
//   {"name": "train", "argv": ["/usr/bin/python3", "script.py", "--lr", "0.1"], "bundle": digest,
//    "env": {}, "resources": {"cpu": 0}, "cwd": "subdir of the bundle",
//    "preflight": false | true | {"min_bus_gbps": n}}
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/spec/policies.h"
#include "common/spec/resource_request.h"

namespace rt {

struct JobSpec {
  std::string name;
  std::vector<std::string> argv;  // At least one; never a shell string.
  std::string bundle;             // Manifest digest of the working directory; empty: none.
  std::string cwd;                // Below the bundle's root; or, without a bundle, a path.
  std::map<std::string, std::string> env;
  ResourceRequest resources;  // Nothing unless asked.
  PreflightSpec preflight;
};

absl::StatusOr<JobSpec> ParseJobSpec(const Json& json);

}  // namespace rt
