#include "head/core/event_table.h"

#include "head/core/event_rows.h"

namespace rt {

EventMeaning MeaningOf(const Event& event) { return std::visit(event_rows::kAll, event); }

}  // namespace rt
