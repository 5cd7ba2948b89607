// The sinks' own copy of the state, as far as their tail of the journal has come.
#pragma once

#include <mutex>

#include "head/core/core.h"

namespace rt {

struct Replica {
  std::mutex mutex;  // The tail changes the core under it; other threads read the core under it.
  Core core;
};

}  // namespace rt
