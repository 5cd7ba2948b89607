#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "worker/session/metric_keys.h"

namespace rt::worker {
namespace {

Json RowOf(size_t from, size_t to) {
  Json row = Json::MakeObject();
  for (size_t i = from; i < to; ++i) row.object().emplace_back("m" + std::to_string(i), 0.5);
  return row;
}

TEST_CASE("a row with too many metrics is refused with the bound and the first names") {
  MetricKeys keys;
  CHECK(keys.Add(RowOf(0, limits::kMetricKeysPerRow)).ok());
  const absl::Status refused = keys.Add(RowOf(0, limits::kMetricKeysPerRow + 1));
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(MessageOf(refused) ==
        "the row has 5001 metrics (m0, m1, m2, ...); at most 5000 are allowed");
}

TEST_CASE("nested metrics count by their full names") {
  MetricKeys keys;
  Json row = Json::MakeObject({{"train", RowOf(0, 3'000)}, {"test", RowOf(0, 2'000)}});
  CHECK(keys.Add(row).ok());
  row["test"].object().emplace_back("loss", 1);
  CHECK_FALSE(keys.Add(row).ok());
}

TEST_CASE("the different metrics of a trial are bounded; earlier ones are still accepted") {
  MetricKeys keys;
  constexpr size_t kRow = limits::kMetricKeysPerRow;
  REQUIRE(keys.Add(RowOf(0, kRow)).ok());
  REQUIRE(keys.Add(RowOf(kRow, 2 * kRow)).ok());
  const absl::Status refused = keys.Add(RowOf(2 * kRow - 1, 2 * kRow + 1));
  CHECK(MessageOf(refused) == "a trial may report 10000 different metrics; it has reported 10000, "
                              "and the row adds 1 (m10000)");
  CHECK_FALSE(HintOf(refused).empty());
  CHECK(keys.Add(RowOf(0, 10)).ok());
}

}  // namespace
}  // namespace rt::worker
