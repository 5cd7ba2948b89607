#include "tests/sim/record.h"

#include <future>
#include <set>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "head/journal/chain.h"
#include "head/journal/codec.h"
#include "head/journal/segment.h"
#include "head/journal/snapshot_bytes.h"
#include "head/journal/sqlite_journal.h"
#include "tests/sim/simulation.h"

namespace rt::sim {
namespace {

constexpr size_t kInDatabase = 150;  // Records; enough to see its tables at work.

void Must(const absl::Status& status) {
  RT_CHECK_BECAUSE(status.ok(), status.ToString().c_str());
}

// How many of the batches the database gets, and their records.
uint64_t WriteDatabase(const std::string& path, const std::vector<Batch>& batches) {
  auto journal = OpenSqliteJournal(path);
  Must(journal.status());
  for (const Batch& batch : batches) {
    if ((*journal)->durable_seq() >= kInDatabase) break;
    std::promise<absl::Status> done;
    (*journal)->Append(batch, [&](absl::Status status) { done.set_value(std::move(status)); });
    Must(done.get_future().get());
  }
  return (*journal)->durable_seq();
}

std::string StateHash(const State& state) { return ToHex(Chain("", EncodeState(state))); }

}  // namespace

void RecordJournal(uint64_t seed, const std::string& directory) {
  std::vector<Batch> batches;
  Simulation simulation(seed);
  simulation.OnKept([&](const std::vector<Record>& records, const std::vector<RowBatch>& rows) {
    batches.push_back({records, rows});
  });
  simulation.Run();
  LogSegment whole{.writer = "recorded", .hash_before = ChainStart()};
  World world, early;
  std::set<std::string> types;
  Must(EnsureDirectory(directory));
  const uint64_t in_database = WriteDatabase(directory + "/journal.db", batches);
  for (const Batch& batch : batches) {
    for (const Record& record : batch.records) {
      types.insert(EventName(record.event));
      Apply(world, record);
      if (record.seq <= in_database) Apply(early, record);
      whole.batch.records.push_back(record);
    }
    for (const RowBatch& rows : batch.rows) whole.batch.rows.push_back(rows);
  }
  whole.epoch = world.state.epoch;
  Must(WriteFileAtomic(directory + "/segment", EncodeSegment(whole)));
  Must(WriteFileAtomic(directory + "/snapshot",
                       SealSnapshot({world.state.seq, EncodeState(world.state)},
                                    whole.hash_after())));
  const Json expected = Json::MakeObject({{"version", RT_VERSION},
                                          {"records", Json(world.state.seq)},
                                          {"event_types", Json(types.size())},
                                          {"chain", ToHex(whole.hash_after())},
                                          {"state", StateHash(world.state)},
                                          {"database_records", Json(in_database)},
                                          {"database_state", StateHash(early.state)}});
  Must(WriteFileAtomic(directory + "/expected.json", expected.Pretty() + "\n"));
  for (const char* name : {"/journal.db.lock", "/journal.db.snapshots"})
    Must(RemoveTree(directory + name));
}

}  // namespace rt::sim
