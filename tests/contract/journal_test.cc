#include <sqlite3.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>

#include "common/base/status.h"
#include "head/journal/memory_journal.h"
#include "head/journal/sqlite_journal.h"
#include "tests/contract/journal_suite.h"

using namespace rt;

namespace {

struct MemoryHarness {
  MemoryJournal memory;
  Journal& journal() { return memory; }
  void Reopen() { memory.Crash(); }
  void FailNext() { memory.Fail(absl::InternalError("told to fail")); }
};

struct SqliteHarness {
  std::filesystem::path folder;
  std::string path;
  std::atomic<bool> fail = false;
  std::unique_ptr<Journal> open;

  SqliteHarness() {
    std::string name = (std::filesystem::temp_directory_path() / "rt-journal-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
    path = folder / "journal.db";
    Reopen();
  }
  ~SqliteHarness() {
    open.reset();
    std::filesystem::remove_all(folder);
  }
  Journal& journal() { return *open; }
  void Reopen() {
    open.reset();
    fail = false;
    auto result = OpenSqliteJournal(path, {.before_commit = [this] {
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
  harness.Execute("UPDATE snapshots SET state = x'00' WHERE seq = 2");
  harness.Reopen();
  CHECK(harness.journal().LatestSnapshot().value()->state == "one");
}
