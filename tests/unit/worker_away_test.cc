// Which ends of a worker's daemon are announced to the head.
#include <catch2/catch.hpp>

#include <csignal>

#include "worker/link/away.h"

namespace rt::worker {
namespace {

TEST_CASE("only a machine that stays up has a worker that comes back") {
  for (const char* state : {"running", "degraded", "starting", "initializing", "maintenance"})
    CHECK(StaysUp(state));
  for (const char* state : {"stopping", "offline", "unknown", ""}) CHECK_FALSE(StaysUp(state));
}

TEST_CASE("only SIGTERM announces that the worker comes back") {
  CHECK(AwayFor(SIGINT, 10'000) == 0);
  CHECK(AwayFor(0, 10'000) == 0);  // A notice ended it.
  CHECK(AwayFor(SIGTERM, 0) == 0);
}

}  // namespace
}  // namespace rt::worker
