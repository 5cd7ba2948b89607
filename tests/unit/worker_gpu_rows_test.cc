// What the gpus of an attempt did, among the metrics of its rows.
#include <catch2/catch.hpp>

#include "worker/session/gpu_rows.h"

namespace rt::worker {
namespace {

GpuUse UseOf(uint64_t samples, double utilisation, double memory, double power) {
  return {.devices = 1,
          .samples = samples,
          .utilisation_mean = utilisation,
          .memory_mean = memory,
          .power_mean = power};
}

constexpr double kGiB = 1024.0 * 1024 * 1024;

}  // namespace

TEST_CASE("gpu rows: a row has the means of the samples since the previous one") {
  GpuRows rows;
  Json first = *Json::Parse(R"({"loss":1})");
  rows.AddTo(first, UseOf(2, 50, 2 * kGiB, 100));
  CHECK(first.Dump() ==
        R"({"loss":1,"gpu":{"utilisation_percent":50.0,"memory_used_gib":2.0,"power_w":100.0}})");
  Json second = *Json::Parse("{}");
  rows.AddTo(second, UseOf(4, 75, 3 * kGiB, 200));  // Two samples more.
  CHECK(second.Find("gpu")->GetDouble("utilisation_percent") == 100);
  CHECK(second.Find("gpu")->GetDouble("memory_used_gib") == 4);
  CHECK(second.Find("gpu")->GetDouble("power_w") == 300);
}

TEST_CASE("gpu rows: a row without a sample, or with a gpu of its own, stays as it is") {
  GpuRows rows;
  Json early = *Json::Parse(R"({"loss":1})");
  rows.AddTo(early, {});
  CHECK(early.Dump() == R"({"loss":1})");
  Json own = *Json::Parse(R"({"gpu":3})");
  rows.AddTo(own, UseOf(2, 50, 1, 1));
  CHECK(own.Dump() == R"({"gpu":3})");
  Json odd = *Json::Parse("[1]");
  rows.AddTo(odd, UseOf(2, 50, 1, 1));
  CHECK(odd.Dump() == "[1]");
}

}  // namespace rt::worker
