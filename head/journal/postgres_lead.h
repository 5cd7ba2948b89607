// The tables of a journal in PostgreSQL, and who may write them: the one line of rt_lead holds the
// epoch of the head that leads. Every batch renews it in its own transaction, under its own epoch:
// a head that was superseded finds no such line, and writes nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/time.h"
#include "head/journal/postgres_database.h"

namespace rt {

// Makes the tables when they are not there; FailedPrecondition, naming the writer, for a format
// that this version does not read. Any number of heads at once.
absl::Status PreparePostgresTables(PostgresDatabase& database, const std::string& version);

struct PostgresLead {
  uint64_t epoch = 0;
  std::string holder;   // The same for every life of one head: it takes back what was its own.
  std::string address;  // Where it is reached, for whoever follows.
  Millis age = 0;       // Since it was renewed, by the server's clock.
};
absl::StatusOr<PostgresLead> ReadPostgresLead(PostgresDatabase& database);

// Takes the lead: the new epoch. Unavailable while another holder has renewed it less than
// `stale_after` ago.
absl::StatusOr<uint64_t> TakePostgresLead(PostgresDatabase& database, const std::string& holder,
                                          Millis stale_after);
// In the caller's transaction, or in one of its own. Aborted when another head has taken it.
absl::Status RenewPostgresLead(PostgresDatabase& database, uint64_t epoch);
absl::Status SetPostgresAddress(PostgresDatabase& database, uint64_t epoch,
                                const std::string& address);
// The head ends: whoever waits for the lead need not wait until it is stale.
absl::Status GiveUpPostgresLead(PostgresDatabase& database, uint64_t epoch);

// What lies beside the journal under a name: the cluster's sealed identity.
absl::StatusOr<std::optional<std::string>> ReadPostgresNote(PostgresDatabase& database,
                                                            const std::string& name);
absl::Status WritePostgresNote(PostgresDatabase& database, const std::string& name,
                               const std::string& text);  // AlreadyExists when there is one.

}  // namespace rt
