// Drivers of tasks in a story; their user is ann.
//
//   executors SESSION KEY COUNT [opener=ATTEMPT] JSON
//   listens SESSION [opener=ATTEMPT]            its driver still does
//   release SESSION [opener=ATTEMPT] [ID…]      without ids all of the session
//   end executor|actor ID|NAME                  a person
//   session SESSION [opener=ATTEMPT]            what its driver is told, at first
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "head/core/core.h"

namespace rt::scenario {

// The input that the command becomes; nothing when the verb is another one.
std::optional<Input> DriversRequest(const std::string& verb, std::istream& words);
// One line for each executor of the session.
std::vector<std::string> ShowSession(const Core& core, Millis now, std::istream& words);

}  // namespace rt::scenario
