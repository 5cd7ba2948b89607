#include "head/core/event_table.h"

#include "head/core/event_rows.h"

namespace rt {

EventMeaning MeaningOf(const Event& event) {
  return std::visit([](const auto& e) -> EventMeaning { return event_rows::kAll(e); }, event);
}

}  // namespace rt
