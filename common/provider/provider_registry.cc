#include "common/provider/provider_registry.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/aws_setup.h"
#include "common/provider/local_setup.h"

namespace rt {
namespace {

constexpr ProviderEntry kProviders[] = {
    {"aws", ReadAwsSetup},
    {"local", ReadLocalSetup},
};

}  // namespace

std::span<const ProviderEntry> Providers() { return kProviders; }

absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadProvider(const Json& provider,
                                                            std::span<const ProviderEntry> known) {
  if (!provider.is_object()) return Invalid("provider must be an object");
  const std::string type = provider.GetString("type");
  std::vector<std::string> names;
  for (const ProviderEntry& entry : known) {
    if (entry.type == type) return entry.read(provider);
    names.push_back("'" + std::string(entry.type) + "'");
  }
  return Invalid("this head knows the provider " + Join(names, ", ") + ", not '" + type + "'");
}

}  // namespace rt
