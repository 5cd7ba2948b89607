// The commands of a story about machines by demand: the story's author is the provider.
//
//   pool NAME cpu=1 [gpu=1] [min=0] [max=2] [idle=MILLIS]   the head starts anew, with this pool
//   request CPUS COUNT               request_resources for so many bundles; COUNT 0: for none
//   wishes                           the calls that follow from the state
//   created REQUEST NUMBER=ID …      an answer of Create
//   failed REQUEST later|capacity|quota|configuration [REASON]   the same, an error
//   listed LAG [NUMBER=ID …]         an answer of List, LAG milliseconds old
//   terminated NUMBER …              an answer of Terminate
#pragma once

#include <istream>
#include <optional>
#include <string>

#include "head/core/core.h"

namespace rt::scenario {

PoolSpec ReadPool(std::istream& words);
// The input that the provider's answer becomes; nothing when the verb is another one.
std::optional<Input> ProviderAnswer(const std::string& verb, std::istream& words, Millis now);
std::string PrintWishes(const Core& core, Millis now);

}  // namespace rt::scenario
