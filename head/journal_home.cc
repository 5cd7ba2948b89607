#include "head/journal_home.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/random.h"
#include "head/journal/postgres_journal.h"
#include "head/journal/sqlite_journal.h"

namespace rt {
namespace {

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

}  // namespace

absl::StatusOr<OpenedJournal> OpenJournal(const JournalConfig& config,
                                          const std::string& state_dir,
                                          std::function<void(absl::Status)> on_lost) {
  OpenedJournal opened;
  if (config.url.empty()) {
    RT_ASSIGN_OR_RETURN(opened.journal, OpenSqliteJournal(state_dir + "/journal.db"));
    opened.set_address = [](const std::string&) { return absl::OkStatus(); };
    return opened;
  }
  RT_ASSIGN_OR_RETURN(std::string holder, HolderOf(state_dir));
  RT_ASSIGN_OR_RETURN(std::unique_ptr<PostgresJournal> journal,
                      OpenPostgresJournal(config.url, {.holder = holder,
                                                       .on_lost = std::move(on_lost)}));
  opened.set_address = [journal = journal.get()](const std::string& address) {
    return journal->SetAddress(address);
  };
  opened.journal = std::move(journal);
  return opened;
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
