#include "cli/client/join.h"

#include "cli/render/unreachable.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/rpc/join.h"

namespace rt {

absl::StatusOr<Context> RedeemToken(const std::string& text, const std::string& address,
                                    const std::string& name) {
  absl::StatusOr<Joined> joined = JoinCluster({.head = address, .token = text, .kind = "user"});
  if (absl::IsUnavailable(joined.status()))
    return WithHint(
        absl::UnavailableError(ToAbsl("the head at " + address + " cannot be reached: " +
                                      TransportReason(MessageOf(joined.status())))),
        "check that rt-head runs there and that its port is open; the token can "
        "still be used");
  if (!joined.ok()) return joined.status();
  return Context{.name = name,
                 .cluster_id = joined->identity.cluster_id,
                 .address = address,
                 .credentials = std::move(joined->credentials)};
}

}  // namespace rt
