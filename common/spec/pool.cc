#include "common/spec/pool.h"

namespace rt {

const char* NameOf(ProviderError error) {
  switch (error) {
    case ProviderError::kRetryLater: return "no answer";
    case ProviderError::kCapacity: return "no capacity";
    case ProviderError::kQuota: return "quota";
    case ProviderError::kBadConfiguration: return "bad configuration";
    case ProviderError::kNotOurs: return "not of this cluster";
    case ProviderError::kNone: break;
  }
  return "no error";
}

}  // namespace rt
