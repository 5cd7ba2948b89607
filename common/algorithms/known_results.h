// The known results that a search was given: its option `evaluated`, among which are those of
// warm_start once the experiment has been created. A result counts if its configuration lies in the
// space: models take what lies beyond a range for a point of its bound. Pure.
#pragma once

#include <string>

#include "common/search/encoding.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// Whether the configuration has the parameters of the space, each within its bounds.
bool LiesIn(const Encoding& encoding, const Space& space, const Json& config);

// Empties the configurations of results that lie elsewhere, so that nothing is learned from them.
// For new experiments alone: those of a journal were searched with what they have.
void EmptyUnusableResults(ExperimentSpec& spec);

// One sentence without its full stop about results whose configurations are no points of the space;
// empty: there are none. It costs as much as reading the results once.
std::string UnusedResults(const ExperimentSpec& spec);

}  // namespace rt
