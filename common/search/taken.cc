#include "common/search/taken.h"

#include <algorithm>
#include <vector>

namespace rt {
namespace {

// Places that are looked at for a free configuration: some milliseconds.
constexpr uint64_t kPlacesMax = 20'000;
// A space with a real axis may have configurations without one, which may all be taken.
constexpr int kDrawsMax = 100;

}  // namespace

bool Taken::Avoid(Point& point, Rng& rng) const {
  // The point of the trial that would have this configuration. At the end of a range that excludes
  // its end it differs.
  const std::optional<Point> as_told = encoding_.compares_configurations()
                                           ? encoding_.Encode(encoding_.Decode(point))
                                           : std::nullopt;
  if (!IsOfTrial(as_told.value_or(point))) return true;
  std::optional<Point> other = applies_ ? Free(rng) : Redrawn(point, rng);
  if (!other.has_value()) return false;
  point = *std::move(other);
  return true;
}

std::optional<Point> Taken::Redrawn(const Point& point, Rng& rng) const {
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    Point other = point;
    for (size_t i = 0; i < other.size(); ++i)
      if (draw > 0 || encoding_.axes()[i].kind() == Axis::Kind::kReal) other[i] = rng.Uniform();
    other = encoding_.Snap(std::move(other));
    if (!IsOfTrial(other)) return other;
  }
  return std::nullopt;
}

bool Taken::IsOfTrial(const Point& point) const {
  const auto is_here = [&](const auto& trial) { return trial.point == point; };
  return std::any_of(observations_.finished.begin(), observations_.finished.end(), is_here) ||
         std::any_of(observations_.in_flight.begin(), observations_.in_flight.end(), is_here);
}

std::optional<Point> Taken::Free(Rng& rng) const {
  const uint64_t total = encoding_.Configurations();
  std::vector<uint64_t> taken;
  for (const auto& trial : observations_.finished) taken.push_back(PlaceOf(trial.point));
  for (const auto& trial : observations_.in_flight) taken.push_back(PlaceOf(trial.point));
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  if (taken.size() >= total) return std::nullopt;
  uint64_t place = rng.Below(total);
  if (!encoding_.HasConditions()) {
    while (std::binary_search(taken.begin(), taken.end(), place)) place = (place + 1) % total;
    return PointAt(place);
  }
  // Several places are one configuration where axes do not exist: `total` is more than there are.
  for (uint64_t looked = 0; looked < std::min(total, kPlacesMax); ++looked) {
    Point point = encoding_.Snap(PointAt(place));
    if (!std::binary_search(taken.begin(), taken.end(), PlaceOf(point))) return point;
    place = (place + 1) % total;
  }
  return std::nullopt;
}

// The place of a configuration in the list of all, the first axis fastest. Distinct as long as
// Configurations() is exact; a space so large is never used up.
uint64_t Taken::PlaceOf(const Point& point) const {
  uint64_t place = 0;
  for (size_t i = point.size(); i-- > 0;)
    place = place * encoding_.axes()[i].count() + encoding_.axes()[i].CellOf(point[i]);
  return place;
}

Point Taken::PointAt(uint64_t place) const {
  Point point;
  for (const Axis& axis : encoding_.axes()) {
    point.push_back(axis.Centre(place % axis.count()));
    place /= axis.count();
  }
  return point;
}

}  // namespace rt
