// What a driver reads of its experiment. The head wakes a driver's poll for these records
// (NoteNews), and the answer to the poll holds these records (head/service/questions.cc). Both ask
// ReaderOf, because a record that only one of them knew would be skipped for ever.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

// Which drivers read a record: all sessions of the experiment, or all but one.
struct DriverReader {
  ExperimentId experiment;  // 0: no driver reads it.
  uint64_t except = 0;      // The session that wrote the record itself; 0: none did.

  bool Is(ExperimentId id, uint64_t session) const {
    return experiment.value != 0 && experiment == id && (except == 0 || except != session);
  }
};
DriverReader ReaderOf(const Event& event);

// Remembers that the experiment's driver has something to read. Called by Apply only.
void NoteNews(World& world, const Event& event, uint64_t seq);

}  // namespace rt
