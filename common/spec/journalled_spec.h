// Specs as the journal and its snapshots hold them (adr/0017). The user's text is validated once,
// by the client and by Step; what Step accepted is journalled in a normalised form with the number
// of its format, and that form is read without judging it. A later release may refuse more in what
// users write: it still reads everything that an earlier one has journalled. What a reader cannot
// use is switched off with a warning; reading never fails. Pure.
//
//   format 0   the user's text, as release 0.1.0 journalled it: no normalised form beside it
//   format 1   every field of the structs below, defaults included, units in the keys' names
//   format 2   as format 1, but search and scheduler are {name, version, options}; format 1 had the
//              options of the search beside the other fields, and those of the scheduler under its
//              name
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/executor_spec.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/job_spec.h"

namespace rt {

inline constexpr uint32_t kSpecFormat = 2;  // What this release journals.

std::string NormalText(const ExperimentSpec& spec);
std::string NormalText(const JobSpec& spec);
std::string NormalText(const ExecutorSpec& spec);
std::string NormalText(const ResourceRequest& request);

// What an event or a snapshot says of one spec.
struct JournalledSpec {
  std::string_view text;    // As the user wrote it.
  std::string_view normal;  // Empty in format 0.
  uint32_t format = 0;
};

template <class Spec>
struct SpecReading {
  Spec spec;
  // One sentence for each piece that was switched off or ignored, and why.
  std::vector<std::string> warnings;
  // The search space or the number of trials could not be read: no more trials can be proposed.
  bool closed = false;
};

SpecReading<ExperimentSpec> ReadJournalledExperiment(const JournalledSpec& journalled);
SpecReading<JobSpec> ReadJournalledJob(const JournalledSpec& journalled);
// Executors have no format 0: no release journalled their text alone.
SpecReading<ExecutorSpec> ReadJournalledExecutor(const JournalledSpec& journalled);
SpecReading<ResourceRequest> ReadJournalledResources(const JournalledSpec& journalled);

// Format 0, for the functions above. A text that is not JSON reads as null.
SpecReading<ExperimentSpec> ReadExperimentText(const Json& json);
SpecReading<JobSpec> ReadJobText(const Json& json);
SpecReading<ResourceRequest> ReadResourcesText(const Json& json, std::string_view path);

}  // namespace rt
