// The providers that this release has, by the `type` of the configuration. To add one, add a line
// to the table in the .cc (docs/checklists.md). Pure.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "common/provider/node_provider.h"

namespace rt {

struct ProviderEntry {
  std::string_view type;
  absl::StatusOr<std::unique_ptr<ProviderSetup>> (*read)(const Json& provider);
};
std::span<const ProviderEntry> Providers();

// `provider`: the object `provider` of the head's configuration, with its `type`.
absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadProvider(
    const Json& provider, std::span<const ProviderEntry> known = Providers());

}  // namespace rt
