#include "common/base/status.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "head/journal/postgres_journal.h"
#include "head/journal/postgres_lead.h"
#include "tests/contract/journal_suite.h"
#include "tests/contract/postgres_proxy.h"
#include "tests/contract/postgres_server.h"

using namespace rt;

namespace {

struct PostgresHarness {
  PostgresServer& server = PostgresServer::Shared();
  const std::string schema = server.NewSchema();
  std::string url = server.Url(schema);
  std::atomic<bool> fail = false;
  std::promise<absl::Status> lost;
  std::unique_ptr<PostgresJournal> open;

  PostgresHarness() { Reopen(); }
  Journal& journal() { return *open; }
  PostgresJournalOptions OptionsOf(const std::string& holder) {
    return {.holder = holder, .stale_after = 60'000, .before_commit = [this] {
      return fail ? absl::InternalError("told to fail") : absl::OkStatus();
    }};
  }
  void Reopen() {
    open.reset();
    fail = false;
    auto result = OpenPostgresJournal(url, OptionsOf("one"));
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    open = std::move(*result);
  }
  void FailNext() { fail = true; }
  void Execute(const std::string& sql) { server.Execute(schema, sql); }
  // Another head, whatever the first one says.
  std::unique_ptr<PostgresJournal> TakeOver(const std::string& holder) {
    PostgresJournalOptions options = OptionsOf(holder);
    options.stale_after = 0;
    auto result = OpenPostgresJournal(url, std::move(options));
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *std::move(result);
  }
};

absl::Status ReadStatus(Journal& journal) {
  return journal.Read(0, [](const Record&) { return absl::OkStatus(); });
}

}  // namespace

TEST_CASE("journal contract: postgres") { RunJournalSuite<PostgresHarness>(); }

TEST_CASE("postgres journal: a second head is kept away while the first one renews its lead") {
  PostgresHarness harness;
  auto second = OpenPostgresJournal(harness.url, harness.OptionsOf("two"));
  CHECK(absl::IsUnavailable(second.status()));
  harness.open.reset();  // It gives the lead back.
  CHECK(OpenPostgresJournal(harness.url, harness.OptionsOf("two")).ok());
}

TEST_CASE("postgres journal: the first head's next append fails when a second takes the lead") {
  PostgresHarness harness;
  REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1)}, {}}).ok());
  auto second = harness.TakeOver("two");
  CHECK(second->lead_epoch() == harness.open->lead_epoch() + 1);
  CHECK(second->durable_seq() == 1);
  absl::Status status = AppendAndWait(harness.journal(), {{TokenRecord(2)}, {}});
  CHECK(absl::IsAborted(status));
  CHECK(AppendAndWait(*second, {{TokenRecord(2)}, {}}).ok());
  CHECK(ReadAll(*second, 0).size() == 2);
}

TEST_CASE("postgres journal: a batch under way is committed before a second head reads the end") {
  PostgresHarness harness;
  harness.open.reset();
  std::promise<void> inside, go_on;
  PostgresJournalOptions options = harness.OptionsOf("one");
  options.before_commit = [&] {
    inside.set_value();
    go_on.get_future().wait();
    return absl::OkStatus();
  };
  auto first = OpenPostgresJournal(harness.url, std::move(options));
  REQUIRE(first.ok());
  std::promise<absl::Status> appended;
  (*first)->Append({{TokenRecord(1)}, {}}, [&](absl::Status status) {
    appended.set_value(std::move(status));
  });
  inside.get_future().wait();
  auto second = std::async(std::launch::async, [&] { return harness.TakeOver("two"); });
  // It waits for the lead's line, which the batch holds.
  CHECK(second.wait_for(std::chrono::milliseconds(300)) == std::future_status::timeout);
  go_on.set_value();
  CHECK(appended.get_future().get().ok());
  CHECK(second.get()->durable_seq() == 1);
}

TEST_CASE("postgres journal: a head that only waits hears that it was superseded") {
  PostgresHarness harness;
  harness.open.reset();
  std::promise<absl::Status> lost;
  PostgresJournalOptions options = harness.OptionsOf("one");
  options.renew_every = 20;
  options.on_lost = [&](absl::Status status) { lost.set_value(std::move(status)); };
  auto first = OpenPostgresJournal(harness.url, std::move(options));
  REQUIRE(first.ok());
  auto second = harness.TakeOver("two");
  CHECK(absl::IsAborted(lost.get_future().get()));
}

TEST_CASE("postgres journal: whoever follows knows where the leader is, and how fresh") {
  PostgresHarness harness;
  REQUIRE(harness.open->SetAddress("10.0.0.1:7070").ok());
  auto database = PostgresDatabase::Connect(harness.url);
  REQUIRE(database.ok());
  auto lead = ReadPostgresLead(**database);
  REQUIRE(lead.ok());
  CHECK(lead->address == "10.0.0.1:7070");
  CHECK(lead->holder == "one");
  CHECK(lead->age < 30'000);
  harness.open.reset();
  CHECK(ReadPostgresLead(**database)->age > 60'000);
}

TEST_CASE("postgres journal: an append whose connection is cut is done once") {
  const auto cut = GENERATE(PostgresProxy::Cut::kBeforeCommit, PostgresProxy::Cut::kAfterCommit);
  PostgresProxy proxy(PostgresServer::Shared().socket());
  PostgresHarness harness;
  harness.open.reset();
  harness.url = harness.server.Url(harness.schema, proxy.folder.path());
  harness.Reopen();
  const AttemptId attempt = AttemptOf(0, 1);
  REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1)}, {}}).ok());
  proxy.next_cut = cut;
  CHECK(AppendAndWait(harness.journal(),
                      {{TokenRecord(2), ReportsRecord(3, attempt, 1)}, {RowsOf(attempt, 1)}})
            .ok());
  CHECK(proxy.cuts == 1);
  CHECK(AppendAndWait(harness.journal(), {{TokenRecord(4)}, {}}).ok());
  CHECK(ReadAll(harness.journal(), 0).size() == 4);
  CHECK(harness.journal().ReadRows(attempt.owner, {}, kAllRows)->size() == 1);
}

TEST_CASE("postgres journal: an append fails when its outcome cannot be found out") {
  PostgresProxy proxy(PostgresServer::Shared().socket());
  PostgresHarness harness;
  harness.open.reset();
  PostgresJournalOptions options = harness.OptionsOf("one");
  options.reconnect_for = 300;
  options.before_commit = [&] {
    proxy.refuse = true;
    return absl::OkStatus();
  };
  const std::string url = harness.server.Url(harness.schema, proxy.folder.path());
  auto journal = OpenPostgresJournal(url, options);
  REQUIRE(journal.ok());
  absl::Status status = AppendAndWait(**journal, {{TokenRecord(1)}, {}});
  CHECK(absl::IsUnavailable(status));
  CHECK(MessageOf(status).find("is unknown") != std::string::npos);
}

TEST_CASE("postgres journal: a damaged or missing record is named") {
  PostgresHarness harness;
  REQUIRE(AppendAndWait(harness.journal(),
                        {{TokenRecord(1), TokenRecord(2), TokenRecord(3)}, {}}).ok());
  SECTION("damaged") {
    harness.Execute("UPDATE rt_events SET body = '\\x0802' WHERE seq = 2");
    CHECK(MessageOf(ReadStatus(harness.journal())).find("record 2:") != std::string::npos);
  }
  SECTION("missing") {
    harness.Execute("DELETE FROM rt_events WHERE seq = 2");
    CHECK(MessageOf(ReadStatus(harness.journal())).find("record 2 is missing") !=
          std::string::npos);
  }
  CHECK(absl::IsDataLoss(ReadStatus(harness.journal())));
}

TEST_CASE("postgres journal: a newer format is refused, naming its writer") {
  PostgresHarness harness;
  harness.open.reset();
  harness.Execute("UPDATE rt_meta SET value = '9' WHERE key IN ('format', 'oldest_reader');"
                  "UPDATE rt_meta SET value = '7.7.7' WHERE key = 'writer'");
  auto opened = OpenPostgresJournal(harness.url, harness.OptionsOf("one"));
  CHECK(absl::IsFailedPrecondition(opened.status()));
  CHECK(MessageOf(opened.status()).find("7.7.7") != std::string::npos);
}

TEST_CASE("postgres journal: a damaged snapshot falls back to the one before") {
  PostgresHarness harness;
  REQUIRE(AppendAndWait(harness.journal(), {{TokenRecord(1), TokenRecord(2)}, {}}).ok());
  REQUIRE(harness.journal().WriteSnapshot({1, "one"}).ok());
  REQUIRE(harness.journal().WriteSnapshot({2, "two"}).ok());
  harness.Execute("UPDATE rt_snapshots SET bytes = bytes || '\\x00' WHERE seq = 2");
  CHECK(harness.journal().LatestSnapshot(UINT64_MAX).value()->state == "one");
}

TEST_CASE("postgres journal: rows that are not those that were announced are refused") {
  PostgresHarness harness;
  const AttemptId attempt = AttemptOf(0, 1);
  REQUIRE(AppendAndWait(harness.journal(), {{ReportsRecord(1, attempt, 1)}, {RowsOf(attempt, 1)}})
              .ok());
  const std::string body = EncodeRows(RowsOf(attempt, 2)), hash = RowsHash(1, body);
  auto database = PostgresDatabase::Connect(harness.url);
  REQUIRE(database.ok());
  REQUIRE((*database)->Query("UPDATE rt_rows SET body = $1, hash = $2 WHERE event_seq = 1",
                             {std::string_view(body), std::string_view(hash)}).ok());
  CHECK(absl::IsDataLoss(harness.journal().ReadBatch(0, 10).status()));
  CHECK(absl::IsDataLoss(harness.journal().ReadRows(attempt.owner, {}, kAllRows).status()));
}

TEST_CASE("postgres journal: a password in the URL is refused") {
  absl::Status status = CheckPostgresUrl("postgres://rt:secret@db.lan/rt");
  CHECK(absl::IsInvalidArgument(status));
  CHECK(MessageOf(status).find("secret") == std::string::npos);
  CHECK(CheckPostgresUrl("postgres://rt@db.lan/rt?passfile=/etc/rt/pgpass").ok());
  CHECK(absl::IsInvalidArgument(CheckPostgresUrl("postgres://rt@db.lan/rt?color=red")));
}

TEST_CASE("postgres journal: a log of many records is read whole") {
  PostgresHarness harness;
  constexpr uint64_t kCount = 12'345;  // Several answers of the database.
  Batch batch;
  for (uint64_t seq = 1; seq <= kCount; ++seq) batch.records.push_back(TokenRecord(seq));
  REQUIRE(AppendAndWait(harness.journal(), std::move(batch)).ok());
  CHECK(ReadAll(harness.journal(), 0).size() == kCount);
  CHECK(ReadAll(harness.journal(), kCount - 1).size() == 1);
  CHECK(harness.journal().ReadBatch(10, 20)->records.size() == 20);
}
