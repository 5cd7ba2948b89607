// A join token that can still be used, as the state knows it. Part of state.h.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/fields.h"
#include "common/base/time.h"

namespace rt {

struct Token {
  std::string id;
  std::string role;
  std::string pool;
  Millis expires_at = 0;
  std::string name = {};
  uint64_t machine = 0;  // As in TokenCreated.
  RT_FIELDS(Token, id, role, pool, expires_at, name, machine);

  // The name that whoever joins with it gets; empty: the node chooses. Releases before names were
  // bound made tokens of people without one.
  std::string bound_name() const { return name.empty() && role != "worker" ? "user-" + id : name; }
};

}  // namespace rt
