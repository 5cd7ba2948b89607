// The journal in a PostgreSQL database, for heads that can take over from one another: whoever
// leads holds the epoch of the table rt_lead, and every batch checks it in its own transaction, so
// that a head that was superseded writes nothing more and ends. Group commit on a thread of its
// own; the same chain of hashes as in every journal. docs/journal.md has the tables.
//
// When the connection breaks, a batch whose commit was under way is looked for on a new connection,
// once the old one can no longer commit; it is written again if it is not there. If that cannot be
// found out in time, the append fails, and with it the process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/time.h"
#include "head/journal/journal.h"

namespace rt {

struct PostgresJournalOptions {
  std::string version = RT_VERSION;
  std::string holder;           // The same for every life of this head.
  Millis stale_after = 3'000;   // A lead that was not renewed for this long may be taken.
  Millis renew_every = 500;
  Millis reconnect_for = 15'000;
  // Called once, on the journal's thread, when another head has taken the lead, or the database
  // could not be reached for too long, while nothing is being appended.
  std::function<void(absl::Status)> on_lost;
  std::function<absl::Status()> before_commit;  // Tests fail or delay it.
};

// A journal with what a head that follows it wants to know.
class PostgresJournal : public Journal {
 public:
  virtual uint64_t lead_epoch() const = 0;
  // Tells whoever follows where this head is reached.
  virtual absl::Status SetAddress(const std::string& address) = 0;
  // The head ends: whoever waits for the lead need not wait until it is stale.
  virtual void GiveUpLead() = 0;
};

// Takes the lead. Errors: another head holds it, or the database cannot be reached (Unavailable);
// a newer format (FailedPrecondition, naming the writer); a URL with a password in it
// (InvalidArgument: it would end up in files and logs); the chain is broken (DataLoss).
absl::StatusOr<std::unique_ptr<PostgresJournal>> OpenPostgresJournal(
    const std::string& url, PostgresJournalOptions options);

bool IsPostgresUrl(std::string_view text);
// InvalidArgument when the URL cannot be read, or has a password in it.
absl::Status CheckPostgresUrl(const std::string& url);

}  // namespace rt
