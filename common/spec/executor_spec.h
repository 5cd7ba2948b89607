// What an executor is: a process on a node that runs tasks, or one actor, of a driver's session
// (docs/adr/0041). It travels as JSON: a job's fields (common/spec/job_spec.h), and
//   {"inputs": [{"manifest": digest, "env": NAME}], "params": {…}, "detached": false,
//    "actor": {"name": "counter", "class": "Counter"}, "max_restarts": 0}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/job_spec.h"

namespace rt {

struct ExecutorSpec {
  JobSpec program;
  std::vector<InputFile> inputs;
  std::string params = "{}";  // JSON, for its process alone: it may hold a secret.
  bool detached = false;      // It outlives its session, and is found by the actor's name.
  std::string actor_name;     // Empty: it has none.
  std::string actor_class;    // For people.
  int64_t max_restarts = 0;   // After failures, where it is detached; -1: without a bound.
};

absl::StatusOr<ExecutorSpec> ParseExecutorSpec(const Json& json);

}  // namespace rt
