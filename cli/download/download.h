// What belongs to an experiment or a job, brought into a directory of this machine in the layout
// that a search without a cluster leaves: <trial>/result.json and so on, <trial>/stdout and stderr,
// <trial>/checkpoint_000003, <trial>/outputs. Only what changed since the last download is fetched.
// Blocks; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/head_client.h"
#include "cli/download/download_log.h"
#include "common/base/ids.h"
#include "common/base/json.h"

namespace rt {

struct Downloaded {
  std::string directory;
  size_t files = 0;  // Fetched now; a checkpoint counts as one.
  Bytes bytes = 0;
  std::vector<std::string> missing;  // "trial 3/1: checkpoint 2: why": is there, did not come.
  std::vector<std::string> gone;     // "trial 3/1: stdout of attempt 1: why": is nowhere any more.
  absl::Status first_error;          // Of what is missing.
};

struct DownloadPlace {
  std::string directory;     // Absolute; "": <results_root>/<name>.
  std::string results_root;  // Absolute.
};

// `experiment` and `job`: as `show` has them. On a cluster of this machine the results directory of
// the experiment is the place unless another one is given, and only what it lacks is fetched.
// An error where nothing can be done at all: the place holds something else, or cannot be made.
absl::StatusOr<Downloaded> DownloadExperiment(HeadClient& client, const Json& experiment,
                                              const DownloadPlace& place);
// Its output, and what it wrote; into <results_root>/jobs/<name> unless a directory is given.
absl::StatusOr<Downloaded> DownloadJob(HeadClient& client, const Json& job,
                                       const DownloadPlace& place);

// A checkpoint of `trial show`.
std::string CheckpointName(const Json& checkpoint);  // "checkpoint_000003" of the fourth.
std::vector<std::string> ManifestsOf(const Json& checkpoint);
// The same checkpoint once the store has it; waits for nodes that bring it there, bounded.
absl::StatusOr<Json> AwaitStored(HeadClient& client, TrialId trial, const Json& checkpoint);

}  // namespace rt
