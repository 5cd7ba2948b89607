#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "common/base/status.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "head/journal/memory_journal.h"
#include "head/journal/sqlite_journal.h"
#include "tests/contract/journal_suite.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

struct MemoryHarness {
  MemoryJournal memory;
  Journal& journal() { return memory; }
  void Reopen() { memory.Crash(); }
  void FailNext() { memory.Fail(absl::InternalError("told to fail")); }
};

struct SqliteHarness {
  TempDir folder{"journal"};
  const std::string path = folder.File("journal.db");
  std::atomic<bool> fail = false;
  std::function<void()> before_commit;  // Called once.
  std::unique_ptr<Journal> open;

  SqliteHarness() { Reopen(); }
  Journal& journal() { return *open; }
  void Reopen() {
    open.reset();
    fail = false;
    auto result = OpenSqliteJournal(path, {.before_commit = [this] {
      if (auto hook = std::exchange(before_commit, nullptr)) hook();
      return fail ? absl::InternalError("told to fail") : absl::OkStatus();
    }});
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    open = std::move(*result);
  }
  void FailNext() { fail = true; }
  // While the journal is closed.
  void Execute(const char* sql) {
    open.reset();
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
    CHECK(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
  }
  void ReplaceRows(uint64_t event_seq, const std::string& body, const std::string& hash) {
    open.reset();
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
    sqlite3_stmt* update = nullptr;
    REQUIRE(sqlite3_prepare_v2(database, "UPDATE rows SET body=?, hash=? WHERE event_seq=?", -1,
                               &update, nullptr) == SQLITE_OK);
    sqlite3_bind_blob(update, 1, body.data(), static_cast<int>(body.size()), SQLITE_STATIC);
    sqlite3_bind_blob(update, 2, hash.data(), static_cast<int>(hash.size()), SQLITE_STATIC);
    sqlite3_bind_int64(update, 3, static_cast<sqlite3_int64>(event_seq));
    CHECK(sqlite3_step(update) == SQLITE_DONE);
    CHECK(sqlite3_changes(database) == 1);
    sqlite3_finalize(update);
    sqlite3_close(database);
  }
  // Alters the last byte of a file beside the journal.
  void Damage(const std::string& suffix) {
    std::fstream file(path + suffix, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('~');
    CHECK(file.good());
  }
};

}  // namespace

TEST_CASE("journal contract: memory") { RunJournalSuite<MemoryHarness>(); }
TEST_CASE("journal contract: sqlite") { RunJournalSuite<SqliteHarness>(); }

TEST_CASE("sqlite journal: a second head is kept away") {
  SqliteHarness harness;
  auto second = OpenSqliteJournal(harness.path);
  CHECK(absl::IsUnavailable(second.status()));
}

TEST_CASE("sqlite journal: a damaged record is named") {
  SqliteHarness harness;
  REQUIRE(AppendAndWait(harness.journal(),
                        {{TokenRecord(1), TokenRecord(2), TokenRecord(3)}, {}}).ok());
  harness.Execute("UPDATE events SET body = x'0802' WHERE seq = 2");
  harness.Reopen();
  absl::Status status = harness.journal().Read(0, [](const Record&) { return absl::OkStatus(); });
  CHECK(absl::IsDataLoss(status));
  CHECK(MessageOf(status).find("record 2") != std::string::npos);
}

TEST_CASE("sqlite journal: a missing record is named") {
  SqliteHarness harness;
  REQUIRE(AppendAndWait(harness.journal(),
                        {{TokenRecord(1), TokenRecord(2), TokenRecord(3)}, {}}).ok());
  harness.Execute("DELETE FROM events WHERE seq = 2");
  harness.Reopen();
  absl::Status status = harness.journal().Read(0, [](const Record&) { return absl::OkStatus(); });
  CHECK(MessageOf(status).find("record 2 is missing") != std::string::npos);
}

TEST_CASE("sqlite journal: a newer format is refused, naming its writer") {
  SqliteHarness harness;
  harness.Execute("UPDATE meta SET value = 9 WHERE key IN ('format', 'oldest_reader');"
                  "UPDATE meta SET value = '7.7.7' WHERE key = 'writer'");
  auto opened = OpenSqliteJournal(harness.path);
  CHECK(absl::IsFailedPrecondition(opened.status()));
  CHECK(MessageOf(opened.status()).find("7.7.7") != std::string::npos);
}

TEST_CASE("sqlite journal: a damaged snapshot falls back to the one before") {
  SqliteHarness harness;
  REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1), TokenRecord(2)}, {}}).ok());
  REQUIRE(harness.journal().WriteSnapshot({1, "one"}).ok());
  REQUIRE(harness.journal().WriteSnapshot({2, "two"}).ok());
  harness.Damage(".snapshots/00000000000000000002");
  CHECK(harness.journal().LatestSnapshot(UINT64_MAX).value()->state == "one");
}

TEST_CASE("sqlite journal: a snapshot of another journal is not taken for ours") {
  SqliteHarness harness, other;
  REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1)}, {}}).ok());
  REQUIRE(AppendAndWait(other.journal(), {{Record{1, 10, event::TokenUsed{"other"}}}, {}}).ok());
  REQUIRE(other.journal().WriteSnapshot({1, "other"}).ok());
  std::filesystem::copy(other.path + ".snapshots", harness.path + ".snapshots");
  CHECK(!harness.journal().LatestSnapshot(UINT64_MAX)->has_value());
}

TEST_CASE("sqlite journal: commits go on while a snapshot is written") {
  SqliteHarness harness;
  REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1)}, {}}).ok());
  std::promise<absl::Status> held, written;
  // The writer's thread waits inside a commit: a snapshot does not need it.
  std::promise<void> inside, go_on;
  harness.before_commit = [&] {
    inside.set_value();
    go_on.get_future().wait();
  };
  harness.journal().Append({{TokenRecord(2)}, {}}, [&](absl::Status status) {
    held.set_value(std::move(status));
  });
  inside.get_future().wait();
  CHECK(harness.journal().WriteSnapshot({1, "one"}).ok());
  go_on.set_value();
  CHECK(held.get_future().get().ok());
}

TEST_CASE("sqlite journal: rows that are not those that were announced are refused") {
  SqliteHarness harness;
  const AttemptId attempt = AttemptOf(0, 1);
  REQUIRE(AppendAndWait(harness.journal(), {{ReportsRecord(1, attempt, 1)}, {RowsOf(attempt, 1)}})
              .ok());
  REQUIRE(harness.journal().ReadBatch(0, 10).ok());
  // Other rows with a hash of their own that fits: only the event's digest tells them apart.
  const std::string body = EncodeRows(RowsOf(attempt, 2));
  harness.ReplaceRows(1, body, RowsHash(1, body));
  harness.Reopen();
  CHECK(absl::IsDataLoss(harness.journal().ReadBatch(0, 10).status()));
  CHECK(absl::IsDataLoss(harness.journal().ReadRows(attempt.owner, {}, kAllRows).status()));
}
