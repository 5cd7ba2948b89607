// Journals that earlier releases wrote, as tests/sim recorded them: this release reads them, and
// comes to the state that they came to.
#include <catch2/catch.hpp>

#include <filesystem>
#include <future>

#include "common/base/json.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "head/core/answer_checker.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "head/journal/replay.h"
#include "head/journal/segment.h"
#include "head/journal/snapshot_bytes.h"
#include "head/journal/sqlite_journal.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

std::string StateHash(const State& state) { return ToHex(Chain("", EncodeState(state))); }

struct Recorded {
  std::string folder, segment, snapshot;
  Json expected;

  explicit Recorded(std::string path) : folder(std::move(path)) {
    INFO(folder);
    segment = *ReadFile(folder + "/segment");
    snapshot = *ReadFile(folder + "/snapshot");
    expected = *Json::Parse(*ReadFile(folder + "/expected.json"));
  }
};

std::vector<Recorded> AllRecorded() {
  std::vector<Recorded> all;
  for (const auto& entry : std::filesystem::directory_iterator(RT_RECORDED_JOURNALS))
    all.emplace_back(entry.path().string());
  REQUIRE(!all.empty());
  return all;
}

}  // namespace

TEST_CASE("recorded journals: every record is read, written alike and replayed to one state") {
  for (const Recorded& recorded : AllRecorded()) {
    INFO(recorded.folder);
    auto segment = DecodeSegment(recorded.segment);
    INFO(segment.status().ToString());
    REQUIRE(segment.ok());
    const uint64_t records = static_cast<uint64_t>(recorded.expected.GetInt("records"));
    CHECK(segment->seq_to() == records);
    CHECK(ToHex(segment->hash_after()) == recorded.expected.GetString("chain"));
    World world;
    for (const Record& record : segment->batch.records) Apply(world, record);
    CHECK(StateHash(world.state) == recorded.expected.GetString("state"));
    // A standby of this release keeps what an older leader ships: byte for byte.
    LogSegment again = *segment;
    EncodeSegment(again);
    CHECK(ToHex(again.hash_after()) == recorded.expected.GetString("chain"));
  }
}

TEST_CASE("recorded journals: early stopping still decides what it decided") {
  for (const Recorded& recorded : AllRecorded()) {
    INFO(recorded.folder);
    auto segment = DecodeSegment(recorded.segment);
    REQUIRE(segment.ok());
    AnswerChecker checker;
    for (const Record& record : segment->batch.records) {
      const absl::Status same = checker.See(record);
      INFO(same.ToString());
      REQUIRE(same.ok());
    }
  }
}

TEST_CASE("recorded journals: a snapshot is read, and tells the same state") {
  for (const Recorded& recorded : AllRecorded()) {
    INFO(recorded.folder);
    const uint64_t seq = static_cast<uint64_t>(recorded.expected.GetInt("records"));
    auto bytes = OpenSnapshot(seq, recorded.snapshot,
                              *FromHex(recorded.expected.GetString("chain")));
    REQUIRE(bytes.ok());
    auto state = DecodeState(*bytes);
    REQUIRE(state.ok());
    CHECK(StateHash(*state) == recorded.expected.GetString("state"));
  }
}

TEST_CASE("recorded journals: a database is opened, replayed and gone on with") {
  for (const Recorded& recorded : AllRecorded()) {
    INFO(recorded.folder);
    TempDir copy("recorded");
    std::filesystem::copy(recorded.folder + "/journal.db", copy.File("journal.db"));
    {
      auto journal = OpenSqliteJournal(copy.File("journal.db"));
      INFO(journal.status().ToString());
      REQUIRE(journal.ok());
      auto replayed = Replay(**journal);
      INFO(replayed.status().ToString());
      REQUIRE(replayed.ok());
      CHECK(StateHash(replayed->world.state) == recorded.expected.GetString("database_state"));
      const uint64_t seq = (*journal)->durable_seq();
      CHECK(seq == static_cast<uint64_t>(recorded.expected.GetInt("database_records")));
      std::promise<absl::Status> appended;
      (*journal)->Append({{{seq + 1, replayed->world.state.time, event::TokenUsed{"t"}}}, {}},
                         [&](absl::Status status) { appended.set_value(std::move(status)); });
      CHECK(appended.get_future().get().ok());
    }
  }
}
