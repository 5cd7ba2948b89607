// Configurations, or parts of them, that a search is given for its first trials: they are laid over
// what is drawn. Pure.
#pragma once

#include <vector>

#include "common/base/json.h"
#include "common/spec/space.h"

namespace rt {

// Lays the members of `from` over `into`; objects are merged member by member.
void MergeInto(Json& into, const Json& from);

// The configuration of what was drawn, with the given part laid over it, which also says which
// parameters exist. `given`: null for none.
Json CompletedBy(const Space& space, std::vector<Drawn> drawn, const Json* given);

}  // namespace rt
