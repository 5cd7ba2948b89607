// Slow links (docs/adr/0044, 0046): what the preflight of a gang over nodes found out about the
// network, which gangs are therefore kept off which nodes, and when a link is measured anew.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "head/core/draft.h"

namespace rt {

// What an owner asks of the network between its nodes, in GB/s; 0: nothing.
double AskedOfLinks(const World& world, const Owner& owner);
// Nodes that the owner avoids: without them no link is left that is too slow for it. `now`, if not
// 0: links that may be measured anew do not count.
std::set<NodeId> AvoidedForLinks(const World& world, const Owner& owner, Millis now = 0);
// Whether these members would use a link that is too slow for the owner. On one node they use none.
bool UseSlowLink(const World& world, const Owner& owner, const std::vector<Member>& members);
// "a and b (3 GB/s), a and all others (4 GB/s)": those that are too slow for the owner; "": none.
std::string SlowLinksText(const World& world, const Owner& owner);
// When the first of them may be measured anew, and what is said of that: "…; the link between a and
// b is measured anew from TIME on, if its gang can be placed nowhere else". "": it avoids none.
std::string RetryText(const World& world, const Owner& owner, Millis now);

// What a preflight that failed has found out, before its attempt ends.
void NoteSlowLinks(Draft& draft, const Observed& observed, const Attempt& live);
// What one that was well says of slow links. They are those between neighbours in the order of
// GROUP_RANK: each carries at least what all of them did.
void NoteMeasuredLinks(Draft& draft, const Observed& observed, const Attempt& live);
// Those that the attempt, which is about to be placed, measures anew.
void NoteRetriedLinks(Draft& draft, const AttemptId& id, const std::vector<Member>& members);
// A link that may be measured anew may be all that a gang waits for.
void ReviewLinks(Draft& draft);
// All of the node are repaired, as a person says.
absl::Status ClearLinks(Draft& draft, const Node& node);

}  // namespace rt
