// How an experiment shares capacity among its running trials: whether a trial that saves is given
// other resources, with which it resumes from that checkpoint. The policy that decides it is in
// common/decide/reallocation.h.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/spec/resource_request.h"

namespace rt {

struct ReallocationSpec {
  enum class Kind {
    kNone,
    kEven,  // Every trial has the same share of what is free.
    kTop,   // The best trial has what is free.
  };
  Kind kind = Kind::kNone;
  bool add_bundles = false;  // A trial grows by bundles like its last one, not within its only one.
  // Cpus and gpus by which a trial grows or shrinks at once; none: one gpu for a trial that has
  // whole gpus, otherwise one cpu (with add_bundles, what its last bundle has).
  Resources increase_by;
  int64_t increase_by_times = 0;  // At most so often, where increase_by is given; 0: no limit.
  Resources reserve;              // Cpus and gpus of the cluster that no trial grows into.
  std::string metric;             // Of kTop; empty: that of the search.
  bool is_max = true;             // The best trial has the highest value of `metric`.

  bool is_given() const { return kind != Kind::kNone; }
};

// {"distribute": {…}} or {"distribute_to_top": {…}} of an experiment's JSON; the options are named
// as the fields above, and "mode" is "max" or "min". `base`: what each trial begins with.
absl::Status ReadReallocation(const Json& json, const ResourceRequest& base,
                              ReallocationSpec& spec);
// In the form in which the journal has it, and back. What cannot be read keeps its default.
Json NormalReallocation(const ReallocationSpec& spec);
ReallocationSpec ReallocationFromNormal(const Json& json);

}  // namespace rt
