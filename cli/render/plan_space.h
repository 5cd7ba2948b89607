// The part of `rt plan` that says how a search space was understood: its parameters with their
// distributions, the constants marked as such, and what may be meant otherwise. Pure.
#pragma once

#include <string>

#include "common/base/json.h"
#include "common/spec/space.h"

namespace rt {

// [{"name","kind","lower","upper","q","values","if"}], in the order of their names. `kind` is a
// distribution's name or "constant"; `lower` and `upper` are mean and deviation of a normal one;
// `values`: of choice and grid; a constant has one. `if`: what other parameters must be, in words.
// A field that does not apply is null.
Json PlanSpace(const Space& space);
// Of the plan's "space" and "notes": a table, and a line per note; empty without them.
std::string TextOfSpace(const Json& plan);

}  // namespace rt
