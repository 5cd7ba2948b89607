// Which record of a batch announces each of its row batches: the ReportsAccepted with kept rows, in
// order. A batch that breaks this is our own mistake.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/check.h"
#include "head/journal/journal.h"

namespace rt {

inline std::vector<uint64_t> RowOwners(const Batch& batch) {
  std::vector<uint64_t> seqs;
  for (const Record& record : batch.records) {
    const auto* reports = std::get_if<event::ReportsAccepted>(&record.event);
    if (reports == nullptr || reports->count == 0) continue;
    RT_CHECK_BECAUSE(seqs.size() < batch.rows.size(), "reports were accepted without their rows");
    RT_CHECK_BECAUSE(batch.rows[seqs.size()].attempt == reports->attempt,
                     "rows of another attempt than their event's");
    seqs.push_back(record.seq);
  }
  RT_CHECK_BECAUSE(seqs.size() == batch.rows.size(), "rows without an event");
  return seqs;
}

}  // namespace rt
