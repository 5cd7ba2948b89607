// What people ask for in a story:
//
//   stop trial|job|experiment ID
//   pause trial|exp ID | resume trial ID | retry trial ID | extend exp ID SAMPLES
//   resume exp ID [failed=ACTION] [unfinished=ACTION] [finished=ACTION]     keep, retry or restart
//   resize trial ID RANKS [MILLIS]   it has so long to save
#pragma once

#include <istream>
#include <optional>
#include <string>

#include "head/core/core.h"

namespace rt::scenario {

// The input that the command becomes; nothing when the verb is another one.
std::optional<Input> PersonsRequest(const std::string& verb, std::istream& words);

}  // namespace rt::scenario
