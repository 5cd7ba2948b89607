// The facts about elastic attempts (docs/adr/0035, docs/adr/0038). Part of events.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/elastic/profile.h"

namespace rt {

// An elastic job as a policy saw it, and the size that it was given.
struct SharedJob {
  AttemptId attempt;
  std::string job_class;
  uint32_t held = 0;  // Its ranks when the policy was asked.
  uint32_t ranks_min = 0;
  uint32_t ranks_max = 0;
  double units = 1;  // Capacity that one rank takes.
  double restart_s = 0;
  bool fixed = false;  // It keeps its size.
  uint32_t ranks = 0;  // The answer.
  // What a second with `ranks`, and with one rank more, is worth in seconds with one rank; 0: it is
  // not known, or it cannot train with so many.
  double speed_up = 0;
  double speed_up_more = 0;
  int64_t priority = 0;
  RT_FIELDS(SharedJob, attempt, job_class, held, ranks_min, ranks_max, units, restart_s, fixed,
            ranks, speed_up, speed_up_more, priority);
};
// Jobs that share one kind of capacity.
struct SharedGroup {
  std::string policy;  // Its name.
  double capacity = 0;
  uint32_t ranks_per_node = 0;
  std::vector<SharedJob> jobs;  // In the order of their arrival.
  // Where `jobs` has only those that are to have another size: how many the policy was asked about,
  // which are all elastic attempts of this kind at `observed_through`, and the places among them of
  // those that keep their size. 0: `jobs` has all of them.
  uint32_t asked = 0;
  std::vector<uint32_t> fixed;
  RT_FIELDS(SharedGroup, policy, capacity, ranks_per_node, jobs, asked, fixed);
};

namespace event {

// Measurements of an elastic attempt were merged with the earlier ones of its owner. `profile` is
// what is known from here on. Its points are those that changed, or all of them (`whole`). `seq` is
// the newest line of the attempt that is contained. The profiles of the owners in `forgotten` are
// dropped, so that their number stays bounded.
struct ProfileRecorded {
  AttemptId attempt;
  uint64_t seq = 0;
  std::string job_class;  // Jobs of one class share what they measured.
  ElasticProfile profile;
  bool whole = false;
  std::vector<Owner> forgotten;
  RT_FIELDS(ProfileRecorded, attempt, seq, job_class, profile, whole, forgotten);
};
// A policy has answered, and at least one attempt was asked for another size because of it: the
// records of these requests are right before this one. It had read the jobs and the profiles that
// the records up to `observed_through` say. A journalled answer has the groups in which a size
// changes, and of their jobs these. Has no effect on the state; it makes the answer checkable.
struct SizesAnswered {
  uint64_t observed_through = 0;
  uint32_t version = 1;  // Of the policies.
  double arrival_s = 0;  // As in ElasticRound.
  std::vector<SharedGroup> groups;
  RT_FIELDS(SizesAnswered, observed_through, version, arrival_s, groups);
};

}  // namespace event
}  // namespace rt
