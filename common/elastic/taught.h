// What a class of jobs has taught, made anew from the profiles of its jobs, and a job as a policy
// sees it because of that. Pure; equal to the bit for equal profiles.
#pragma once

#include <memory>
#include <vector>

#include "common/elastic/allocation.h"
#include "common/elastic/class_memory.h"

namespace rt {

// A job of the class.
struct ClassRecord {
  ElasticProfile profile;
  bool has_completed = false;  // It ended by itself: it had no more to do.
  friend bool operator==(const ClassRecord&, const ClassRecord&) = default;
};

struct Taught {
  ClassMemory memory;
  std::unique_ptr<Speed> speed;  // Null: nothing was measured.
};
// `records`: from the oldest to the newest. Those with another initial batch than the newest count
// in other units, and are left out.
Taught TeachClass(const std::vector<ClassRecord>& records);

// Fills in what is known of the job's speed, noise, progress and length. `own`: its own profile;
// null: it has none yet. Without any measurement the job may have each of its sizes at once. The
// job reads `taught`, which outlives it.
void ViewJob(const Taught& taught, const ElasticProfile* own, ElasticJob& job);

}  // namespace rt
