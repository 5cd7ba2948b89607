// What a worker does for runs of one kind of owner and not for those of another: one row for each
// kind. A kind without a row does not compile. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace rt::worker {

struct NodeRules {
  // Sets the variables that tell its programs whose run they are.
  void (*name)(const Owner& owner, std::map<std::string, std::string>& env) = nullptr;
  // Its programs see all gpus of the node where it holds none.
  bool sees_gpus_of_others = false;
  // The Python module that a fork server runs for it; empty: none does.
  std::string_view warm_module;
  // What its programs write is stored when it ends.
  bool keeps_outputs = true;
  // Drivers elsewhere may connect to its programs (docs/adr/0041).
  bool takes_connections = false;
};

const NodeRules& RulesOf(const Owner& owner);

}  // namespace rt::worker
