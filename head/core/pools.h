// Machines by demand: what the head wants of the provider, as a function of the state. Step's part
// is in pools.cc: it decides when machines are asked for and released. Nothing here calls a
// provider; head/service/node_reconciler.h does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "head/autoscale/planner.h"
#include "head/core/core.h"

namespace rt {

// The name under which the worker of a machine joins: "worker-7".
std::string MachineName(uint64_t machine);

// One call of Create: the machines of a request that are not confirmed.
struct CreateWish {
  uint64_t request = 0;
  std::string pool;
  std::vector<uint64_t> machines;
};
// Released and still there, as far as is known.
struct TerminateWish {
  uint64_t machine = 0;
  std::string id;
};
struct ProviderWishes {
  std::vector<CreateWish> create;  // At most one for each pool.
  std::vector<TerminateWish> terminate;
  // A machine was released before its creation was confirmed: only List says whether it exists.
  bool needs_list = false;
};
ProviderWishes WishesOf(const Core& core, Millis now);

// Whether the machine may join: it was asked for and is not released.
absl::Status CheckMayJoin(const State& state, uint64_t machine);

// Whether it changes what is known of machines; for a failpoint.
bool IsAboutMachines(const Record& record);

// The pools of which a node could hold the request.
std::vector<PoolNow> PoolsFor(const Core& core, const ResourceRequest& wanted, Millis now);

// Whether the pools have as many machines together as the configuration allows.
bool IsAtMaxWorkers(const Core& core);

}  // namespace rt
