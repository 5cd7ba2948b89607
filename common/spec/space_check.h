// What a search space and its first configurations must keep for every search algorithm to draw
// from them. Checked when a user submits; a space in a journal is drawn from as it is.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/spec/space.h"

namespace rt {

// InvalidArgument, with the path below "space", where a range has bounds or steps that numbers of
// 64 bits cannot keep apart: a draw would always be the same, infinite or not a number.
absl::Status CheckDraws(const Space& space);
// The same where a point gives something else to a variable that is a number. Values outside the
// range are allowed, and so are Python's values of any type ("py:(64, 32)"). `path` is that of the
// list of points.
absl::Status CheckPoints(const Space& space, const Json::Array& points, const std::string& path);

}  // namespace rt
