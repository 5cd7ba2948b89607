// Keeps the journal of a seed as this release writes it: later releases must replay it to the same
// state (tests/data/journals, docs/journal.md).
#pragma once

#include <cstdint>
#include <string>

namespace rt::sim {

// Writes into DIR: segment (the whole journal, as it is shipped), snapshot (sealed, of the state at
// its end), journal.db (its first records, in SQLite) and expected.json. Ends the process when it
// cannot.
void RecordJournal(uint64_t seed, const std::string& directory);

}  // namespace rt::sim
