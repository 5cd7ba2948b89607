// Who belongs to an attempt, and what they use together.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

#include "worker/limits/memory_watch.h"

namespace rt::worker {
namespace {

constexpr Bytes kMiB = 1 << 20;

TEST_CASE("an attempt is its descendants and its session, and nothing else") {
  // 10 leads session 10 and started 11; 12 is an orphan of that session; 13, a child of 12, left
  // it; 20 is another attempt, 21 its child in a session of its own.
  ProcessTable table({{1, {0, 1, 5}},
                      {10, {5, 10, 100}},
                      {11, {10, 10, 10}},
                      {12, {1, 10, 1}},
                      {13, {12, 13, 1000}},
                      {20, {5, 20, 7}},
                      {21, {20, 21, 70}}});
  CHECK(table.TreeOf(10) == std::set<pid_t>{10, 11, 12, 13});
  CHECK(table.ResidentOf(table.TreeOf(10)) == 1111);
  CHECK(table.ResidentOf(table.TreeOf(20)) == 77);
  CHECK(table.TreeOf(99).empty());
}

TEST_CASE("pages that parent and child share are counted once") {
  // What the process had before: much, under a sanitizer.
  const Bytes before = ProportionalMemoryOf({::getpid()});
  std::vector<char> shared(256 * kMiB, 1);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(ends[1]);
    ::_exit(::read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(ends[0]);
  const ProcessTable table = ProcessTable::Read();
  const Bytes once = before + 256 * kMiB;
  Bytes used = 0;
  CHECK(table.TreeOf(::getpid()).contains(child));
  CHECK(table.ResidentOf(table.TreeOf(::getpid())) > once + 128 * kMiB);
  CHECK_FALSE(IsBeyond(table, ::getpid(), once + 128 * kMiB, used));
  CHECK(used > 256 * kMiB);
  CHECK(IsBeyond(table, ::getpid(), 256 * kMiB, used));
  ::close(ends[1]);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("the reason names what was asked for") {
  CHECK(BeyondMemory(600 * kMiB, 512 * kMiB) ==
        "it grew to 600 MiB, beyond the 512 MiB of memory that it asked for");
  CHECK(BeyondMemory(0, 512 * kMiB) == "it grew beyond the 512 MiB of memory that it asked for");
}

}  // namespace
}  // namespace rt::worker
