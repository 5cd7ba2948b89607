#include "head/standby.h"

#include <ctime>
#include <filesystem>
#include <future>

#include "common/base/log.h"
#include "common/base/status.h"
#include "head/journal/codec.h"
#include "head/journal/lead_beat.h"
#include "head/journal/postgres_journal.h"
#include "head/journal/postgres_lead.h"
#include "head/journal/postgres_reads.h"
#include "head/journal/replay.h"
#include "head/journal/shipping_journal.h"
#include "head/journal/sqlite_journal.h"

namespace rt {
namespace {

constexpr Millis kLookEvery = 200;

absl::Status Ending() { return absl::CancelledError("the standby is ended"); }

// Says once what keeps it from following, and once that it is over.
class Complaint {
 public:
  void Note(const absl::Status& status) {
    if (status.ok() == is_ok_) return;
    is_ok_ = status.ok();
    if (is_ok_) {
      RT_LOG(kInfo) << "standby: following again";
    } else {
      RT_LOG(kWarning) << "standby: " << MessageOf(status) << "; it is tried again";
    }
  }

 private:
  bool is_ok_ = true;
};

// What this head wrote when it led, and nobody else has: kept for people, out of the way.
absl::Status SetAside(const std::string& state_dir) {
  const std::string place = state_dir + "/superseded-" + std::to_string(std::time(nullptr));
  std::error_code error;
  std::filesystem::create_directory(place, error);
  for (const char* name : {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db.snapshots",
                           "results.cursor"}) {
    const std::string from = state_dir + "/" + name;
    if (!std::filesystem::exists(from, error)) continue;
    std::filesystem::rename(from, place + "/" + name, error);
    if (error) return absl::InternalError(ToAbsl("move " + from + ": " + error.message()));
  }
  RT_LOG(kWarning) << "standby: the journal here has records that the shipped log lacks; it was "
                   << "moved to " << place;
  return absl::OkStatus();
}

class LogFollower {
 public:
  LogFollower(ObjectStore& store, std::string state_dir)
      : store_(store), log_(store), state_dir_(std::move(state_dir)) {}

  // Everything that is there.
  absl::Status Begin() {
    const std::string path = state_dir_ + "/journal.db";
    followed_ = {};
    RT_ASSIGN_OR_RETURN(followed_.local, OpenSqliteJournal(path));
    absl::Status status = CatchUp(log_, *followed_.local);
    if (status.ok()) status = ComparedWithLog();
    if (absl::IsAborted(status)) {
      followed_.local.reset();
      RT_RETURN_IF_ERROR(SetAside(state_dir_));
      RT_ASSIGN_OR_RETURN(followed_.local, OpenSqliteJournal(path));
      status = CatchUp(log_, *followed_.local);
    }
    RT_RETURN_IF_ERROR(status);
    RT_ASSIGN_OR_RETURN(Replayed replayed, Replay(*followed_.local));
    followed_.world = std::move(replayed.world);
    RT_LOG(kInfo) << "standby: follows from record " << followed_.world.state.seq;
    return absl::OkStatus();
  }

  // What came since; whether the lead is free.
  absl::StatusOr<bool> Look() {
    State& state = followed_.world.state;
    while (true) {
      RT_ASSIGN_OR_RETURN(std::optional<LogSegment> next, log_.Next(state.seq + 1));
      if (!next.has_value()) break;
      RT_RETURN_IF_ERROR(Take(*std::move(next)));
    }
    RT_ASSIGN_OR_RETURN(std::optional<LeadSign> sign, ReadLeadSign(store_));
    return watch_.IsFree(sign);
  }
  Followed Take() { return std::move(followed_); }

 private:
  // Ours may be longer than the log, and of another history.
  absl::Status ComparedWithLog() {
    RT_ASSIGN_OR_RETURN(ShippedLog::End end, log_.FindEnd());
    if (end.seq == 0 || end.seq > followed_.local->durable_seq()) return absl::OkStatus();
    RT_ASSIGN_OR_RETURN(std::string hash, followed_.local->HashAt(end.seq));
    return hash == end.hash ? absl::OkStatus() : absl::AbortedError("another history");
  }
  absl::Status Take(LogSegment segment) {
    const uint64_t before = segment.seq_from() - 1;
    if (before > 0) {
      RT_ASSIGN_OR_RETURN(std::string hash, followed_.local->HashAt(before));
      if (hash != segment.hash_before) return absl::DataLossError("the shipped log does not fit");
    }
    for (const Record& record : segment.batch.records) Apply(followed_.world, record);
    std::promise<absl::Status> kept;
    followed_.local->Append(std::move(segment.batch),
                            [&](absl::Status status) { kept.set_value(std::move(status)); });
    return kept.get_future().get();
  }

  ObjectStore& store_;
  ShippedLog log_;
  const std::string state_dir_;
  LeadWatch watch_;
  Followed followed_;
};

}  // namespace

absl::StatusOr<Followed> FollowShippedLog(ObjectStore& store, const std::string& state_dir,
                                          const GoOn& go_on) {
  LogFollower follower(store, state_dir);
  Complaint complaint;
  absl::Status begun = absl::UnavailableError("not yet");
  do {
    if (!begun.ok()) begun = follower.Begin();
    absl::StatusOr<bool> is_free = begun.ok() ? follower.Look() : begun;
    complaint.Note(is_free.status());
    // A damaged log, or a disk that is full, is not mended by waiting.
    const bool may_heal = is_free.ok() || absl::IsUnavailable(is_free.status()) ||
                          absl::IsDeadlineExceeded(is_free.status());
    if (!may_heal) return is_free.status();
    if (is_free.ok() && *is_free) return follower.Take();
  } while (go_on(kLookEvery));
  return Ending();
}

absl::StatusOr<Followed> FollowPostgres(const std::string& url, const std::string& holder,
                                        const GoOn& go_on) {
  const Millis stale_after = PostgresJournalOptions().stale_after;
  PostgresReads reads(url);
  Followed followed;
  World& world = followed.world;
  std::unique_ptr<PostgresDatabase> database;
  Complaint complaint;
  bool begun = false;
  const auto look = [&]() -> absl::StatusOr<bool> {
    if (database == nullptr) {
      RT_ASSIGN_OR_RETURN(database, PostgresDatabase::Connect(url));
      RT_RETURN_IF_ERROR(PreparePostgresTables(*database, RT_VERSION));
    }
    if (!begun) {
      RT_ASSIGN_OR_RETURN(std::optional<Snapshot> snapshot, reads.LatestSnapshot(UINT64_MAX));
      if (snapshot.has_value()) {
        RT_ASSIGN_OR_RETURN(world.state, DecodeState(snapshot->state));
      }
      Reindex(world);
      begun = true;
      RT_LOG(kInfo) << "standby: follows from record " << world.state.seq;
    }
    RT_RETURN_IF_ERROR(reads.Read(world.state.seq, [&](const Record& record) {
      Apply(world, record);
      return absl::OkStatus();
    }));
    RT_ASSIGN_OR_RETURN(PostgresLead lead, ReadPostgresLead(*database));
    return lead.holder == holder || lead.age > stale_after;
  };
  do {
    absl::StatusOr<bool> is_free = look();
    complaint.Note(is_free.status());
    if (!is_free.ok() && !absl::IsUnavailable(is_free.status())) return is_free.status();
    if (!is_free.ok()) database.reset();
    if (is_free.ok() && *is_free) return absl::StatusOr<Followed>(std::move(followed));
  } while (go_on(kLookEvery));
  return Ending();
}

}  // namespace rt
