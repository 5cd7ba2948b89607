// `rt-head --restore-from`: a state directory from the shipped journal.
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/cas/open_objects.h"
#include "common/run/files.h"
#include "head/journal/journal_draft.h"
#include "head/journal/snapshot_bytes.h"
#include "head/journal/sqlite_journal.h"
#include "head/journal_home.h"

namespace rt {
namespace {

// So that the first start need not replay everything. Without one it does.
absl::Status TakeSnapshot(ShippedLog& log, Journal& journal) {
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> seqs, log.Snapshots());
  for (uint64_t seq : seqs) {
    if (seq > journal.durable_seq()) continue;
    RT_ASSIGN_OR_RETURN(std::string hash, journal.HashAt(seq));
    absl::StatusOr<std::string> state = log.ReadSnapshot(seq);
    if (state.ok()) state = OpenSnapshot(seq, *std::move(state), hash);
    if (state.ok()) return journal.WriteSnapshot({seq, *std::move(state)});
    RT_LOG(kWarning) << "snapshot " << seq << " is passed over: " << MessageOf(state.status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> RestoreStateDir(const std::string& url, const std::string& key_file,
                                            const std::string& state_dir) {
  const std::string path = state_dir + "/journal.db";
  for (const std::string& name : {path, state_dir + "/ca"}) {
    // A restore that was cut off is begun again.
    if (!Exists(name) || (name != path && JournalDraft::IsBegun(path))) continue;
    return WithHint(absl::FailedPreconditionError(ToAbsl(name + " is there already")),
                    "restore into a new directory");
  }
  auto store = OpenObjects(url);
  if (!store.ok()) return Annotate(store.status(), "--restore-from");
  ShippedLog log(**store);
  auto end = log.FindEnd();
  if (!end.ok()) return Annotate(end.status(), url);
  if (end->seq == 0) return NotFound("there is no shipped journal at " + url);
  RT_RETURN_IF_ERROR(EnsureDirectory(state_dir));
  RT_ASSIGN_OR_RETURN(JournalDraft draft, JournalDraft::Begin(path));
  RT_RETURN_IF_ERROR(
      LoadIdentity(state_dir, IdentityVaultIn(**store), key_file, false).status());
  RT_RETURN_IF_ERROR(Annotate(CatchUp(log, draft.journal()), url));
  RT_RETURN_IF_ERROR(draft.Seal());
  RT_ASSIGN_OR_RETURN(auto journal, OpenSqliteJournal(path));
  RT_RETURN_IF_ERROR(TakeSnapshot(log, *journal));
  return state_dir + " holds the journal up to record " + std::to_string(journal->durable_seq()) +
         ", epoch " + std::to_string(end->epoch) +
         "; start rt-head with it, and with the same journal in its configuration";
}

}  // namespace rt
