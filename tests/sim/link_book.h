// What the auditor knows of a slow link between two nodes. Part of auditor.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt::sim {

struct LinkBook {
  double gbps = 0, asked = 0;
  Millis at = 0;  // When it was found, or was last tried.
  uint32_t tries = 0;
  AttemptId retrier;  // The last that was placed over it to measure it anew.
  Millis found_at = 0;

  // One minute, two, four, up to an hour.
  Millis may_be_tried_at() const {
    Millis wait = 60'000;
    for (uint32_t i = 0; i < tries && wait < 3'600'000; ++i) wait *= 2;
    return at + std::min<Millis>(wait, 3'600'000);
  }
};

}  // namespace rt::sim
