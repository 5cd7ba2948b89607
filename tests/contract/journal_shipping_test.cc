#include <atomic>
#include <filesystem>

#include "common/base/status.h"
#include "common/cas/mem_objects.h"
#include "head/journal/journal_draft.h"
#include "head/journal/shipping_journal.h"
#include "head/journal/sqlite_database.h"
#include "head/journal/sqlite_journal.h"
#include "tests/contract/journal_suite.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

// A store whose next calls can be made to go wrong.
struct FaultyObjects : MemObjects {
  enum class Fault { kNone, kLostBefore, kLostAfter };
  std::atomic<Fault> next_put = Fault::kNone;  // Once.
  std::atomic<bool> away = false;              // No write arrives.
  std::atomic<int> puts = 0;

  absl::Status PutIfAbsent(const std::string& key, std::string_view bytes) override {
    ++puts;
    const Fault fault = next_put.exchange(Fault::kNone);
    if (away || fault == Fault::kLostBefore) return absl::UnavailableError("lost before");
    absl::Status status = MemObjects::PutIfAbsent(key, bytes);
    return fault == Fault::kLostAfter ? absl::DeadlineExceededError("lost after") : status;
  }
};

struct ShippedHead {
  TempDir folder{"ship"};
  FaultyObjects own_store;
  FaultyObjects* store = &own_store;
  ShippingOptions options;
  std::atomic<bool> fail = false;
  std::promise<absl::Status> lost;
  Millis boot_time = 0;
  int lives = 0;
  std::string name = "a";
  std::unique_ptr<ShippingJournal> open;

  explicit ShippedHead(ShipMode mode, FaultyObjects* shared = nullptr, std::string head = "a")
      : name(std::move(head)) {
    if (shared != nullptr) store = shared;
    options.mode = mode;
    options.ship_every = 1;
    options.retry_for = 5'000;
    options.boot_clock = [this] { return boot_time; };
    options.on_lost = [this](absl::Status status) { lost.set_value(std::move(status)); };
  }
  ~ShippedHead() { open.reset(); }
  Journal& journal() { return *open; }
  absl::Status TryOpen() {
    open.reset();
    fail = false;
    auto local = OpenSqliteJournal(folder.File("journal.db"), {.before_commit = [this] {
      return fail ? absl::InternalError("told to fail") : absl::OkStatus();
    }});
    REQUIRE(local.ok());
    options.writer = name + std::to_string(++lives);
    auto opened = OpenShippingJournal(*std::move(local), *store, options);
    if (!opened.ok()) return opened.status();
    open = *std::move(opened);
    return absl::OkStatus();
  }
  void Reopen() {
    absl::Status status = TryOpen();
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  void FailNext() { fail = true; }
  void Flush() { REQUIRE(open->Flush(10'000).ok()); }
};

struct AsyncHarness : ShippedHead {
  AsyncHarness() : ShippedHead(ShipMode::kAsync) { Reopen(); }
};
struct SyncHarness : ShippedHead {
  SyncHarness() : ShippedHead(ShipMode::kSync) { Reopen(); }
};

Record Started(uint64_t seq, uint64_t epoch) {
  return {seq, static_cast<Millis>(seq) * 10, event::HeadStarted{epoch, "c", "demo", "0.1.0"}};
}
std::vector<std::string> Keys(ObjectStore& store, const std::string& prefix) {
  std::vector<std::string> keys;
  auto listed = store.List(prefix, "", 10'000);
  REQUIRE(listed.ok());
  for (const ObjectInfo& info : *listed) keys.push_back(info.key);
  return keys;
}

}  // namespace

TEST_CASE("journal contract: shipped, async") { RunJournalSuite<AsyncHarness>(); }
TEST_CASE("journal contract: shipped, sync") { RunJournalSuite<SyncHarness>(); }

TEST_CASE("shipping: another machine takes over all that was shipped, rows included") {
  const ShipMode mode = GENERATE(ShipMode::kAsync, ShipMode::kSync);
  ShippedHead first(mode);
  first.Reopen();
  const AttemptId attempt = AttemptOf(0, 1);
  REQUIRE(AppendAndWait(first.journal(), {{Started(1, 1), TokenRecord(2)}, {}}).ok());
  REQUIRE(AppendAndWait(first.journal(),
                        {{ReportsRecord(3, attempt, 1)}, {RowsOf(attempt, 1)}}).ok());
  first.Flush();
  CHECK(first.open->shipped_seq() == 3);
  ShippedHead second(mode, first.store, "b");
  second.Reopen();
  CHECK(ReadAll(second.journal(), 0) == ReadAll(first.journal(), 0));
  CHECK(second.journal().ReadRows(attempt.owner, {}, kAllRows)->size() == 1);
  CHECK(*second.journal().HashAt(3) == *first.journal().HashAt(3));
}

TEST_CASE("shipping: a draft is the journal once it is sealed, and not before") {
  ShippedHead first(ShipMode::kSync);
  first.Reopen();
  const AttemptId attempt = AttemptOf(0, 1);
  REQUIRE(AppendAndWait(first.journal(), {{Started(1, 1), TokenRecord(2)}, {}}).ok());
  REQUIRE(AppendAndWait(first.journal(),
                        {{ReportsRecord(3, attempt, 1)}, {RowsOf(attempt, 1)}}).ok());
  TempDir folder("restore");
  const std::string path = folder.File("journal.db");
  ShippedLog log(*first.store);
  {
    auto given_up = JournalDraft::Begin(path);
    REQUIRE(given_up.ok());
    CHECK(absl::IsUnavailable(JournalDraft::Begin(path).status()));
    REQUIRE(AppendAndWait(given_up->journal(), {{Started(1, 9)}, {}}).ok());
  }
  CHECK(JournalDraft::IsBegun(path));
  auto draft = JournalDraft::Begin(path);
  REQUIRE(draft.ok());
  REQUIRE(CatchUp(log, draft->journal()).ok());
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(draft->Seal().ok());
  CHECK_FALSE(JournalDraft::IsBegun(path));
  auto restored = OpenSqliteJournal(path);
  REQUIRE(restored.ok());
  CHECK(ReadAll(**restored, 0) == ReadAll(first.journal(), 0));
  CHECK((*restored)->ReadRows(attempt.owner, {}, kAllRows)->size() == 1);
  REQUIRE(AppendAndWait(**restored, {{TokenRecord(4)}, {}}).ok());
  CHECK((*restored)->bytes_synced() > 0);  // With a write-ahead log, as any other.
  auto database = SqliteDatabase::Open(path, true);
  REQUIRE(database.ok());
  auto index = SqliteStatement::Prepare(
      **database, "SELECT count(*) FROM sqlite_schema WHERE name='rows_by_owner'");
  REQUIRE(index.ok());
  REQUIRE(index->Step().ok());
  CHECK(index->Number(0) == 1);
}

TEST_CASE("shipping: sync tells nobody before the store has it") {
  SyncHarness head;
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  head.store->away = true;
  std::promise<absl::Status> done;
  head.journal().Append({{TokenRecord(2)}, {}}, [&](absl::Status status) {
    done.set_value(std::move(status));
  });
  auto answer = done.get_future();
  const int before = head.store->puts;
  while (head.store->puts < before + 2) std::this_thread::yield();  // It tries, and tries again.
  CHECK(answer.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  CHECK(head.journal().durable_seq() == 1);
  CHECK(head.journal().ReadBatch(0, 10)->records.size() == 1);
  CHECK(ReadAll(head.journal(), 0).size() == 1);
  head.store->away = false;
  CHECK(answer.get().ok());
  CHECK(head.journal().durable_seq() == 2);
}

TEST_CASE("shipping: async goes on while the store is away, and catches up") {
  AsyncHarness head;
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  head.store->away = true;
  REQUIRE(AppendAndWait(head.journal(), {{TokenRecord(2)}, {}}).ok());
  CHECK(head.open->shipped_seq() == 1);
  CHECK(absl::IsDeadlineExceeded(head.open->Flush(1)));
  head.store->away = false;
  head.Flush();
  CHECK(head.open->shipped_seq() == 2);
}

TEST_CASE("shipping: async too tells nobody of a new head before the store knows it") {
  AsyncHarness head;
  head.store->away = true;
  std::promise<absl::Status> done;
  head.journal().Append({{Started(1, 1)}, {}}, [&](absl::Status status) {
    done.set_value(std::move(status));
  });
  while (head.store->puts < 2) std::this_thread::yield();
  CHECK(head.journal().durable_seq() == 0);
  head.store->away = false;
  CHECK(done.get_future().get().ok());
}

TEST_CASE("shipping: a slot whose answer was lost is found, and written once") {
  const auto fault = GENERATE(FaultyObjects::Fault::kLostBefore, FaultyObjects::Fault::kLostAfter);
  SyncHarness head;
  head.store->next_put = fault;
  CHECK(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  CHECK(AppendAndWait(head.journal(), {{TokenRecord(2)}, {}}).ok());
  CHECK(Keys(*head.store, "log/").size() == 2);
}

TEST_CASE("shipping: whoever takes over fences the head before it") {
  const ShipMode mode = GENERATE(ShipMode::kAsync, ShipMode::kSync);
  ShippedHead first(mode);
  first.Reopen();
  REQUIRE(AppendAndWait(first.journal(), {{Started(1, 1), TokenRecord(2)}, {}}).ok());
  first.Flush();
  ShippedHead second(mode, first.store, "b");
  second.Reopen();
  REQUIRE(AppendAndWait(second.journal(), {{Started(3, 2)}, {}}).ok());
  absl::Status late = AppendAndWait(first.journal(), {{TokenRecord(3)}, {}});
  CHECK((mode == ShipMode::kAsync || absl::IsAborted(late)));
  CHECK(absl::IsAborted(first.lost.get_future().get()));
  CHECK(absl::IsAborted(AppendAndWait(first.journal(), {{TokenRecord(4)}, {}})));
  REQUIRE(AppendAndWait(second.journal(), {{TokenRecord(4)}, {}}).ok());
  // What it wrote alone keeps it from starting again as if nothing had been.
  CHECK(absl::IsAborted(first.TryOpen()));
}

TEST_CASE("shipping: of two heads that start with the same log one becomes the head") {
  ShippedHead first(ShipMode::kSync);
  ShippedHead second(ShipMode::kSync, first.store, "b");
  first.Reopen();
  second.Reopen();
  CHECK(AppendAndWait(first.journal(), {{Started(1, 1)}, {}}).ok());
  // The same record at the same time: only the writer's name differs.
  CHECK(absl::IsAborted(AppendAndWait(second.journal(), {{Started(1, 1)}, {}})));
}

TEST_CASE("shipping: what a crash kept from the store is shipped by the next life") {
  AsyncHarness head;
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  head.store->away = true;
  REQUIRE(AppendAndWait(head.journal(), {{TokenRecord(2)}, {}}).ok());
  head.open.reset();
  head.store->away = false;
  head.Reopen();
  CHECK(head.open->shipped_seq() == 2);
}

TEST_CASE("shipping: a damaged object is refused by its name") {
  SyncHarness head;
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  const std::string key = Keys(*head.store, "log/").at(0);
  std::string bytes = *head.store->Get(key);
  bytes[bytes.size() - 1] ^= 1;
  REQUIRE(head.store->Put(key, bytes).ok());
  ShippedHead other(ShipMode::kSync, head.store, "b");
  absl::Status status = other.TryOpen();
  CHECK(absl::IsDataLoss(status));
  CHECK(MessageOf(status).find(key) != std::string::npos);
}

TEST_CASE("shipping: the log of another cluster is refused") {
  SyncHarness head;
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  ShippedHead other(ShipMode::kSync, head.store, "b");
  {
    auto local = OpenSqliteJournal(other.folder.File("journal.db"));
    REQUIRE(AppendAndWait(**local, {{Started(1, 1), TokenRecord(2)}, {}}).ok());
    REQUIRE(AppendAndWait(**local, {{TokenRecord(3)}, {}}).ok());
  }
  REQUIRE(other.TryOpen().ok());  // The same beginning: it is this head's log, and shipped on.
  ShippedHead third(ShipMode::kSync, head.store, "c");
  {
    auto local = OpenSqliteJournal(third.folder.File("journal.db"));
    REQUIRE(AppendAndWait(**local, {{TokenRecord(1)}, {}}).ok());
  }
  CHECK(absl::IsAborted(third.TryOpen()));
}

TEST_CASE("shipping: small slots are gathered in packs, and old ones go") {
  ShippedHead head(ShipMode::kSync);
  head.options.pack_bytes = 1;
  head.options.kept_for = 1'000;
  head.Reopen();
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  const AttemptId attempt = AttemptOf(0, 1);
  uint64_t seq = 1;
  const auto go_on = [&] {
    ++seq;
    head.store->Advance(400);
    REQUIRE(AppendAndWait(head.journal(),
                          {{ReportsRecord(seq, attempt, seq)}, {RowsOf(attempt, seq)}}).ok());
  };
  while (seq < 20) go_on();
  // Packing is beside the writing: more records come until it has let slots go.
  while (Keys(*head.store, "log/").front() == "log/00000000000000000001" && seq < 5'000) go_on();
  CHECK(Keys(*head.store, "log/").size() < seq);
  CHECK(Keys(*head.store, "pack/").front() == "pack/00000000000000000001");
  ShippedHead second(ShipMode::kSync, head.store, "b");
  second.Reopen();
  CHECK(second.journal().durable_seq() == seq);
  CHECK(second.journal().ReadRows(attempt.owner, {}, kAllRows)->size() == seq - 1);
  CHECK(*second.journal().HashAt(seq) == *head.journal().HashAt(seq));
}

TEST_CASE("shipping: a head that was silent for long looks for its last slot first") {
  SyncHarness head;
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1)}, {}}).ok());
  head.boot_time += 2 * 86'400'000;
  CHECK(AppendAndWait(head.journal(), {{TokenRecord(2)}, {}}).ok());
  head.boot_time += 2 * 86'400'000;
  REQUIRE(head.store->Delete("log/00000000000000000002").ok());
  CHECK(absl::IsAborted(AppendAndWait(head.journal(), {{TokenRecord(3)}, {}})));
}

TEST_CASE("shipping: snapshots are shipped, the newest two of them") {
  SyncHarness head;
  REQUIRE(AppendAndWait(head.journal(), {{Started(1, 1), TokenRecord(2), TokenRecord(3)}, {}})
              .ok());
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    REQUIRE(head.journal().WriteSnapshot({seq, "state " + std::to_string(seq)}).ok());
  }
  CHECK(Keys(*head.store, "snap/") == std::vector<std::string>{"snap/00000000000000000002",
                                                               "snap/00000000000000000003"});
}
