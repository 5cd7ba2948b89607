// The facts about machines of a provider (docs/adr/0025), and about what they are wanted for. Part
// of events.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/time.h"
#include "common/spec/pool.h"
#include "head/core/facts.h"

namespace rt::event {

// The provider will be asked for the machines `request` to `request` + `count` - 1 of the pool.
struct MachinesRequested {
  uint64_t request = 0;
  std::string pool;
  uint32_t count = 0;
  RT_FIELDS(MachinesRequested, request, pool, count);
};
// The provider has made these machines of the request.
struct MachinesCreated {
  uint64_t request = 0;
  std::vector<CreatedMachine> machines;
  RT_FIELDS(MachinesCreated, request, machines);
};
// The provider has not made the other machines of the request, and never will, or, with
// kRetryLater, its answer is missing. The pool is not asked again before `retry_at`.
struct MachinesFailed {
  uint64_t request = 0;
  std::string pool;
  ProviderError error = ProviderError::kNone;
  std::string reason;
  Millis retry_at = 0;
  RT_FIELDS(MachinesFailed, request, pool, error, reason, retry_at);
};
// The machine is not needed any more, or is none that the journal knows; it will be removed.
struct MachineReleased {
  uint64_t machine = 0;
  std::string pool;
  std::string id;  // Empty: not known.
  std::string reason;
  RT_FIELDS(MachineReleased, machine, pool, id, reason);
};
struct MachineDeleted {  // The provider does not have it any more.
  uint64_t machine = 0;
  std::string reason;
  RT_FIELDS(MachineDeleted, machine, reason);
};
// A person or a driver asked that the cluster can hold these bundles at once, whatever runs. It
// replaces what was asked for before; without bundles nothing is asked for any more.
struct ResourcesRequested {
  std::vector<RequestedBundles> bundles;
  std::string by;
  RT_FIELDS(ResourcesRequested, bundles, by);
};

}  // namespace rt::event
