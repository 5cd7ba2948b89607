#include "head/core/driver_records.h"

#include "head/core/event_table.h"

namespace rt {

void NoteDriverRecord(World& world, const Event& event, uint64_t seq) {
  // A new driver has everything to read, including the answers of the drivers before it.
  const auto* attached = std::get_if<event::DriverAttached>(&event);
  const DriverReader reader =
      attached != nullptr ? DriverReader{attached->experiment} : MeaningOf(event).reader;
  auto index = world.index.experiments.find(reader.experiment);
  if (index == world.index.experiments.end()) return;
  const uint64_t session = world.state.experiments.at(reader.experiment).drivers.size();
  if (reader.Is(reader.experiment, session)) index->second.driver_record_seq = seq;
}

}  // namespace rt
