// Slow links (docs/adr/0044): what the preflight of a gang over nodes found out about the network,
// and which gangs are therefore kept off which nodes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "head/core/draft.h"

namespace rt {

// What an owner asks of the network between its nodes, in GB/s; 0: nothing.
double AskedOfLinks(const World& world, const Owner& owner);
// Nodes that the owner avoids: without them no link is left that is too slow for it.
std::set<NodeId> AvoidedForLinks(const World& world, const Owner& owner);
// Whether these members would use a link that is too slow for the owner. On one node they use none.
bool UseSlowLink(const World& world, const Owner& owner, const std::vector<Member>& members);
// "a and b (3 GB/s), a and all others (4 GB/s)": those that are too slow for the owner; "": none.
std::string SlowLinksText(const World& world, const Owner& owner);

// What a preflight that failed has found out, before its attempt ends.
void NoteSlowLinks(Draft& draft, const Observed& observed, const Attempt& live);
// All of the node are repaired, as a person says.
absl::Status ClearLinks(Draft& draft, const Node& node);

}  // namespace rt
