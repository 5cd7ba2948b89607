// What the state knows of the machines that the head has asked a provider for (docs/adr/0025), and
// of the pools that they belong to. Part of state.h.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/pool.h"

namespace rt {

// From the request until the provider is known not to have it any more.
struct Machine {
  uint64_t number = 0;  // Counts from 1 within the cluster, and is never used again.
  std::string pool;
  uint64_t request = 0;  // The first number of those that were asked for together.
  std::string id;        // The provider's name for it; empty: its creation is not confirmed.
  NodeId node;           // The newest that joined with a token of this machine; 0: none.
  Millis requested_at = 0;
  Millis created_at = 0;
  Millis released_at = 0;  // Not 0: it is to be removed, and takes no work.
  std::string reason;      // Of the release.
  RT_FIELDS(Machine, number, pool, request, id, node, requested_at, created_at, released_at,
            reason);

  bool is_live() const { return released_at == 0; }
};

// What went wrong with the last request of a pool.
struct Pool {
  ProviderError error = ProviderError::kNone;
  std::string reason;
  uint32_t failures = 0;  // In a row.
  Millis retry_at = 0;    // No request is made before.
  RT_FIELDS(Pool, error, reason, failures, retry_at);
};

}  // namespace rt
