// The known results that a search was given: its option `evaluated`, among which are those of
// warm_start once the experiment has been created. A result counts if its configuration lies in the
// space: models take what lies beyond a range for a point of its bound. Pure.
#pragma once

#include <string>

#include "common/search/encoding.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// Reports whether `config` has all parameters of the space, each with a value that may be drawn.
bool LiesIn(const Encoding& encoding, const Space& space, const Json& config);

// Empties the configurations of results that lie elsewhere, so that nothing is learned from them.
// For new experiments alone: those of a journal were searched with what they have.
void EmptyUnusableResults(ExperimentSpec& spec);

// A warning about results whose configurations are no points of the space, without a full stop;
// empty: there are none. The function reads each result once.
std::string UnusedResults(const ExperimentSpec& spec);

}  // namespace rt
