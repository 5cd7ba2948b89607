// A provider of tests: machines with given names lie on a shelf, and are switched on and off. What
// a provider needs besides its own files is one line in a registry.
#pragma once

#include <memory>

#include "common/provider/node_provider.h"

namespace rt::seams {

// {"type": "shelf", "machines": ["a", "b"], "pool": "cpu"}
absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadShelf(const Json& provider);

}  // namespace rt::seams
