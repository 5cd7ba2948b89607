// What the client finds in an experiment YAML beyond what makes it valid, with the place in the
// file: resources that no node has, and what may be meant otherwise. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/yaml/experiment_file.h"

namespace rt {

// "sweep.yaml:7: lr is the same list in every trial; …". `nodes`: see CheckResources.
std::vector<std::string> NotesFor(const ExperimentFile& file, const Json& nodes);
// InvalidArgument with the place for a resource that none of the nodes has and that resembles one
// of rt's own. `nodes`: the items of `node list`; null or empty when none is known, which makes it
// a note.
absl::Status CheckResources(const ExperimentFile& file, const Json& nodes);

}  // namespace rt
