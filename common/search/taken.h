// Which configurations have been proposed, so that none is proposed twice. Refers to what it is
// made of. Pure.
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

  // Whether a finished trial or one in flight has this configuration. The point must be snapped.
  // False in any space with a real axis: two candidates are rarely equal there, so only the chosen
  // one is checked (Avoid).
  bool Has(const Point& point) const { return applies_ && IsOfTrial(point); }
  // The same in any space.
  bool IsOfTrial(const Point& point) const;
  // Moves the point to a configuration that no trial has, if one has it. False: all are taken, and
  // the point stays.
  bool Avoid(Point& point, Rng& rng) const;

 private:
  // The first configuration that is not taken, from a random one on; nullopt when all are.
  std::optional<Point> Free(Rng& rng) const;
  // The point with other values of its real axes; after that any point. nullopt: none was found.
  std::optional<Point> Redrawn(const Point& point, Rng& rng) const;
  uint64_t PlaceOf(const Point& point) const;
  Point PointAt(uint64_t place) const;

  const Encoding& encoding_;
  const Observations& observations_;
  const bool applies_;
};

}  // namespace rt
