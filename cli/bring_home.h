// What exists on a cluster only, brought to this machine: at the end of a foreground submit, and
// before a cluster is taken down. Blocks.
#pragma once

#include <string>
#include <vector>

#include "cli/client/head_client.h"

namespace rt {

struct HomeWish {
  std::vector<uint64_t> experiments;
  std::vector<uint64_t> jobs;
  std::string results_root;  // Absolute: where what has no place of its own goes.
  // What jobs printed as well: who attended them has read it, but the cluster goes.
  bool job_output = false;
};

struct BroughtHome {
  std::vector<std::string> said;     // Lines for people: where it is, what is nowhere any more.
  std::vector<std::string> missing;  // What did not come, and why: one line each.
};
// Experiments and jobs that are not over are brought as far as they are.
BroughtHome BringHome(HeadClient& client, const HomeWish& wish);

// "rt: LINE" on standard error; of very many the first few and how many more there are.
void SayLines(const std::string& before, const std::vector<std::string>& lines);

}  // namespace rt
