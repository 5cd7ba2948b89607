// What each type of event means beyond the state: one row for each type in event_rows.h, and an
// event without a row does not compile. Step asks which workers get a new desired state and whether
// a placement round follows, the driver's poll what there is to read. Pure.
#pragma once

#include "head/core/events.h"

namespace rt {

// Which drivers read a record: all sessions of the experiment, or all but one.
struct DriverReader {
  ExperimentId experiment;  // 0: no driver reads it.
  uint64_t except = 0;      // The session that wrote the record itself; 0: none did.

  bool Is(ExperimentId id, uint64_t session) const {
    return experiment.value != 0 && experiment == id && (except == 0 || except != session);
  }
};

struct EventMeaning {
  std::vector<Owner> owners;       // The desired state of their workers changes.
  bool invites_placement = false;  // It brings work, or capacity, or takes a choice away.
  DriverReader reader;
};

EventMeaning MeaningOf(const Event& event);

}  // namespace rt
