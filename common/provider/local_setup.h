// What the head's configuration says of the provider `local`, the worker daemons of this machine:
//   {"type": "local", "workers": [{"name": "worker-1", "resources": "cpu=2", "labels": "k=v"}]}
// These workers run as long as the head; those of pools come and go by demand. Pure but for a look
// for the gpu library.
#pragma once

#include "common/provider/node_provider.h"

namespace rt {

absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadLocalSetup(const Json& provider);

}  // namespace rt
