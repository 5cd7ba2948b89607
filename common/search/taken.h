// Which configurations of a discrete space have been proposed, so that none is proposed twice. A
// space with a real axis has no end, and nothing is taken there. Refers to what it is made of.
// Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/rng.h"
#include "common/search/encoding.h"
#include "common/search/observations.h"

namespace rt {

class Taken {
 public:
  Taken(const Encoding& encoding, const Observations& observations)
      : encoding_(encoding), observations_(observations), applies_(encoding.IsDiscrete()) {}

  // Whether a trial, finished or in flight, has this configuration. The point is snapped.
  bool Has(const Point& point) const;
  // The first configuration that is not taken, from a random one on; nullopt when all are.
  std::optional<Point> Free(Rng& rng) const;

 private:
  uint64_t PlaceOf(const Point& point) const;
  Point PointAt(uint64_t place) const;

  const Encoding& encoding_;
  const Observations& observations_;
  const bool applies_;
};

}  // namespace rt
