#include "head/journal_home.h"

#include <thread>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/open_objects.h"
#include "common/run/files.h"
#include "common/run/random.h"
#include "head/journal/journal_draft.h"
#include "head/journal/postgres_lead.h"
#include "head/journal/sqlite_journal.h"

namespace rt {
namespace {

constexpr Millis kFinishWait = 5'000;
constexpr auto kLeadLook = std::chrono::milliseconds(200);
constexpr char kIdentityKey[] = "cluster";

std::string DatabaseIn(const std::string& state_dir) { return state_dir + "/journal.db"; }

// The same for every life of a head with this state directory.
absl::StatusOr<std::string> HolderOf(const std::string& state_dir) {
  const std::string path = state_dir + "/holder";
  absl::StatusOr<std::string> text = ReadFile(path, 4096);
  if (text.ok()) return std::string(Trim(*text));
  if (!absl::IsNotFound(text.status())) return text.status();
  const std::string holder = RandomHex(8);
  RT_RETURN_IF_ERROR(WriteFileAtomic(path, holder + "\n"));
  return holder;
}

class LocalHome final : public JournalHome {
 public:
  explicit LocalHome(std::string state_dir) : state_dir_(std::move(state_dir)) {}
  absl::StatusOr<ClusterCa> LoadCa(bool) override { return LoadOrCreateCa(state_dir_); }
  absl::StatusOr<World> StandBy(const GoOn&) override {
    return WithHint(
        absl::FailedPreconditionError("--standby: a second head cannot read this journal"),
        "configure a shipped journal, or one in PostgreSQL");
  }
  absl::StatusOr<std::unique_ptr<Journal>> Open(std::function<void(absl::Status)>) override {
    return OpenSqliteJournal(DatabaseIn(state_dir_));
  }
  absl::Status Announce(const std::string&) override { return absl::OkStatus(); }
  void Finish() override {}

 private:
  const std::string state_dir_;
};

class ShippedHome final : public JournalHome {
 public:
  ShippedHome(JournalConfig config, std::string state_dir, std::string holder,
              std::unique_ptr<ObjectStore> store)
      : config_(std::move(config)), state_dir_(std::move(state_dir)), holder_(std::move(holder)),
        store_(std::move(store)) {}

  absl::StatusOr<ClusterCa> LoadCa(bool may_create) override {
    return LoadIdentity(state_dir_, IdentityVaultIn(*store_), config_.key_file, may_create);
  }
  absl::StatusOr<World> StandBy(const GoOn& go_on) override {
    RT_ASSIGN_OR_RETURN(followed_, FollowShippedLog(*store_, state_dir_, go_on));
    return std::move(followed_.world);
  }
  absl::StatusOr<std::unique_ptr<Journal>> Open(
      std::function<void(absl::Status)> on_lost) override {
    std::unique_ptr<Journal> local = std::move(followed_.local);
    if (local == nullptr) {
      RT_RETURN_IF_ERROR(AwaitFreeLead());
      RT_ASSIGN_OR_RETURN(local, OpenSqliteJournal(DatabaseIn(state_dir_)));
    }
    ShippingOptions options{.mode = config_.sync ? ShipMode::kSync : ShipMode::kAsync,
                            .writer = holder_ + "-" + RandomHex(4),
                            .on_lost = std::move(on_lost)};
    RT_ASSIGN_OR_RETURN(auto journal,
                        OpenShippingJournal(std::move(local), *store_, std::move(options)));
    journal_ = journal.get();
    return journal;
  }
  absl::Status Announce(const std::string& address) override {
    beat_ = std::make_unique<LeadBeat>(*store_, holder_, address);
    return absl::OkStatus();
  }
  void Finish() override {
    absl::Status status = journal_ == nullptr ? absl::OkStatus() : journal_->Flush(kFinishWait);
    if (!status.ok()) {
      RT_LOG(kWarning) << "shipping the journal: " << MessageOf(status);
    }
    beat_.reset();
  }

 private:
  // Another head that leads is not pushed aside by one that merely starts.
  absl::Status AwaitFreeLead() {
    LeadWatch watch;
    uint64_t first_beat = 0;
    while (true) {
      RT_ASSIGN_OR_RETURN(std::optional<LeadSign> sign, ReadLeadSign(*store_));
      if (!sign.has_value() || sign->holder == holder_ || watch.IsFree(sign))
        return absl::OkStatus();
      if (first_beat != 0 && sign->beat != first_beat)
        return WithHint(absl::UnavailableError(ToAbsl("another head leads, at " + sign->address)),
                        "start this one with --standby, or end that one first");
      first_beat = sign->beat;
      std::this_thread::sleep_for(kLeadLook);
    }
  }

  const JournalConfig config_;
  const std::string state_dir_, holder_;
  const std::unique_ptr<ObjectStore> store_;
  Followed followed_;
  ShippingJournal* journal_ = nullptr;
  std::unique_ptr<LeadBeat> beat_;
};

class PostgresHome final : public JournalHome {
 public:
  PostgresHome(JournalConfig config, std::string state_dir, std::string holder)
      : config_(std::move(config)), state_dir_(std::move(state_dir)), holder_(std::move(holder)) {}

  absl::StatusOr<ClusterCa> LoadCa(bool may_create) override {
    if (config_.key_file.empty()) return LoadOrCreateCa(state_dir_);
    auto database = PostgresDatabase::Connect(config_.url);
    if (!database.ok()) return Annotate(database.status(), "journal");
    RT_RETURN_IF_ERROR(Annotate(PreparePostgresTables(**database, RT_VERSION), "journal"));
    PostgresDatabase& notes = **database;
    return LoadIdentity(state_dir_,
                        {.read = [&] { return ReadPostgresNote(notes, kIdentityKey); },
                         .write = [&](const std::string& text) {
                           return WritePostgresNote(notes, kIdentityKey, text);
                         }},
                        config_.key_file, may_create);
  }
  absl::StatusOr<World> StandBy(const GoOn& go_on) override {
    RT_ASSIGN_OR_RETURN(Followed followed, FollowPostgres(config_.url, holder_, go_on));
    return std::move(followed.world);
  }
  absl::StatusOr<std::unique_ptr<Journal>> Open(
      std::function<void(absl::Status)> on_lost) override {
    RT_ASSIGN_OR_RETURN(auto journal,
                        OpenPostgresJournal(config_.url, {.holder = holder_,
                                                          .on_lost = std::move(on_lost)}));
    journal_ = journal.get();
    return journal;
  }
  absl::Status Announce(const std::string& address) override {
    return journal_->SetAddress(address);
  }
  void Finish() override {
    if (journal_ != nullptr) journal_->GiveUpLead();
  }

 private:
  const JournalConfig config_;
  const std::string state_dir_, holder_;
  PostgresJournal* journal_ = nullptr;
};

}  // namespace

IdentityVault IdentityVaultIn(ObjectStore& store) {
  return {.read = [&store]() -> absl::StatusOr<std::optional<std::string>> {
            absl::StatusOr<std::string> text = store.Get(kIdentityKey);
            if (absl::IsNotFound(text.status())) return std::optional<std::string>();
            if (!text.ok()) return text.status();
            return std::optional(*std::move(text));
          },
          .write = [&store](const std::string& text) {
            return store.PutIfAbsent(kIdentityKey, text);
          }};
}

absl::StatusOr<std::unique_ptr<JournalHome>> JournalHome::Make(const JournalConfig& config,
                                                               const std::string& state_dir) {
  if (JournalDraft::IsBegun(DatabaseIn(state_dir)))
    return WithHint(absl::FailedPreconditionError(ToAbsl(
                        "a restore into " + state_dir + " did not come to its end")),
                    "run that rt-head --restore-from once more");
  if (config.url.empty() && config.ship_to.empty()) return std::make_unique<LocalHome>(state_dir);
  RT_ASSIGN_OR_RETURN(std::string holder, HolderOf(state_dir));
  if (!config.url.empty()) return std::make_unique<PostgresHome>(config, state_dir, holder);
  auto store = OpenObjects(config.ship_to);
  if (!store.ok()) return Annotate(store.status(), "journal/ship/to");
  RT_RETURN_IF_ERROR(Annotate(ProbeObjects(**store), "journal/ship/to"));
  return std::make_unique<ShippedHome>(config, state_dir, holder, *std::move(store));
}

absl::Status CheckCluster(Journal& journal, const std::string& cluster_id,
                          const std::string& state_dir) {
  std::string found;
  absl::Status status = journal.Read(0, [&](const Record& record) {
    const auto* started = std::get_if<event::HeadStarted>(&record.event);
    if (started != nullptr) found = started->cluster_id;
    return absl::CancelledError("");  // The first record is enough.
  });
  if (!status.ok() && !absl::IsCancelled(status)) return Annotate(status, "journal");
  if (found.empty() || found == cluster_id) return absl::OkStatus();
  return WithHint(absl::FailedPreconditionError(ToAbsl(
                      "the journal is that of cluster " + found + ", the CA in " + state_dir +
                      "/ca is that of " + cluster_id)),
                  "copy the directory ca of a head of that cluster there, or use another database");
}

}  // namespace rt
