// Who may call what: one table from method to the roles that may call it, and nothing else is
// allowed. docs/security.md shows it. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/rpc/identity.h"

namespace rt {

// `method` is "ExperimentService/Get". Absent from the table: nobody may call it.
bool HasAuthEntry(std::string_view method);
std::vector<std::string> AuthMethods();  // All keys of the table, ascending.
bool IsAllowed(std::string_view method, std::string_view role);

// Unauthenticated for an identity of another cluster, PermissionDenied for a role too weak.
absl::Status Authorize(std::string_view method, const Identity& who, std::string_view cluster_id);
// What a viewer sees of an experiment: of its spec's environment the names, and "***" for each
// value. Others see everything.
Json ShownTo(const Identity& who, Json experiment);
// The node that a worker's certificate names: the only one that it may speak for.
absl::StatusOr<NodeId> NodeOf(const Identity& who);

}  // namespace rt
