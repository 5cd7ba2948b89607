// What is open on a cluster that is to be taken down, and who has an interest in it. Blocks.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"

namespace rt {

struct WorkItem {
  uint64_t id = 0;
  bool is_job = false;
  bool is_open = false;
  std::string name;
  std::string state;
  uint64_t job = 0;  // Of an experiment whose driver is a job.
};
// All experiments and jobs, experiments first.
absl::StatusOr<std::vector<WorkItem>> ListWork(HeadClient& client);
// "experiment 3 (lr-search)"
std::string ToText(const WorkItem& item);

// Stops everything and waits for it, bounded; the head and its workers stay. What did not end in
// time is named in the status.
absl::Status StopWork(HeadClient& client);

}  // namespace rt
