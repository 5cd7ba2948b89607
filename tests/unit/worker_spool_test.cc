#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/limits.h"
#include "tests/temp_dir.h"
#include "worker/session/spool.h"

namespace rt::worker {
namespace {

struct Scratch {
  TempDir dir{"spool"};
  std::string spool() const { return dir.File("spool"); }
};

SpoolRow RowWith(double iteration, std::string metrics = "{}") {
  return {.client_seq = static_cast<uint64_t>(iteration), .iteration = iteration,
          .metrics = std::move(metrics)};
}

TEST_CASE("rows outlive the spool's object, with their counters") {
  Scratch scratch;
  {
    auto spool = *Spool::Open(scratch.spool());
    for (int i = 1; i <= 3; ++i) REQUIRE(spool->Append(RowWith(i)).ok());
    spool->Acknowledge(1);
  }
  auto spool = *Spool::Open(scratch.spool());
  CHECK(spool->last_seq() == 3);
  CHECK(spool->last_client_seq() == 3);
  CHECK(spool->last_iteration() == 3);
  CHECK(spool->Pending(10, 1000).back().seq == 3);
}

TEST_CASE("a torn last line is cut off, and the next row follows the last whole one") {
  Scratch scratch;
  { REQUIRE((*Spool::Open(scratch.spool()))->Append(RowWith(1)).ok()); }
  std::ofstream(scratch.spool(), std::ios::app) << R"({"s":2,"c":2,"i":)";
  auto spool = *Spool::Open(scratch.spool());
  CHECK(spool->last_seq() == 1);
  CHECK(spool->Append(RowWith(2))->seq == 2);
}

TEST_CASE("a row that comes with a checkpoint is known as such after a restart") {
  Scratch scratch;
  SpoolRow row = RowWith(1);
  row.with_checkpoint = true;
  { REQUIRE((*Spool::Open(scratch.spool()))->Append(row).ok()); }
  auto spool = *Spool::Open(scratch.spool());
  REQUIRE(spool->Append(RowWith(2)).ok());
  const std::vector<SpoolRow> pending = spool->Pending(10, 10'000);
  REQUIRE(pending.size() == 2);
  CHECK(pending[0].with_checkpoint);
  CHECK_FALSE(pending[1].with_checkpoint);
}

TEST_CASE("a row is found by its key, also acknowledged, cut from the file and after a restart") {
  Scratch scratch;
  const std::string large = Json(std::string(600'000, 'x')).Dump();
  {
    auto spool = *Spool::Open(scratch.spool());
    for (int i = 1; i <= 4; ++i) {
      SpoolRow row = RowWith(i, large);
      row.key = "key" + std::to_string(i);
      REQUIRE(spool->Append(row).ok());
    }
    spool->Acknowledge(3);  // The file is written anew.
    CHECK(spool->Find("key2")->seq == 2);
  }
  CHECK(std::filesystem::file_size(scratch.spool()) < 2 * large.size());
  auto spool = *Spool::Open(scratch.spool());
  CHECK(spool->last_seq() == 4);
  REQUIRE(spool->Find("key2").has_value());
  CHECK(spool->Find("key2")->seq == 2);
  CHECK(spool->Find("key2")->iteration == 2);
  CHECK(spool->Find("key2")->metrics.empty());
  CHECK(spool->Find("key4")->seq == 4);
  CHECK_FALSE(spool->Find("key5").has_value());
  CHECK_FALSE(spool->Find("").has_value());
  REQUIRE(spool->Pending(10, 10'000'000).size() == 1);
  CHECK(spool->Pending(10, 10'000'000)[0].seq == 4);
  for (int i = 5; i < 100; ++i) {
    SpoolRow row = RowWith(i);
    row.key = "key" + std::to_string(i);
    REQUIRE(spool->Append(row).ok());
  }
  CHECK_FALSE(spool->Find("key4").has_value());
  CHECK(spool->Find("key99").has_value());
}

TEST_CASE("a full spool has room again after acknowledgement, and its file is cut") {
  Scratch scratch;
  auto spool = *Spool::Open(scratch.spool());
  const std::string big(limits::kMetricsBytesMax - 2, 'x');
  while (!spool->IsFull()) REQUIRE(spool->Append(RowWith(1, big)).ok());
  CHECK(std::filesystem::file_size(scratch.spool()) < 2 * limits::kSpoolBytesMax);
  const uint64_t last = spool->last_seq();
  spool->Acknowledge(last);
  CHECK_FALSE(spool->IsFull());
  CHECK_FALSE(spool->HasPending());
  CHECK(std::filesystem::file_size(scratch.spool()) < 1000);
  CHECK(spool->Append(RowWith(1))->seq == last + 1);
}

TEST_CASE("pending is bounded by rows and bytes, but never empty-handed") {
  Scratch scratch;
  auto spool = *Spool::Open(scratch.spool());
  for (int i = 1; i <= 5; ++i) REQUIRE(spool->Append(RowWith(i)).ok());
  CHECK(spool->Pending(2, 1 << 20).size() == 2);
  CHECK(spool->Pending(10, 1).size() == 1);
}

}  // namespace
}  // namespace rt::worker
