// The digest of the kept rows that a ReportsAccepted announces. The event's hash chain covers it,
// and whoever reads the rows checks it, so that rows cannot be lost, altered or swapped unnoticed.
// Not cryptographic, as the chain has no key either: it finds damage, not forgery.
#pragma once

#include <bit>
#include <string>
#include <vector>

#include "common/base/fingerprint.h"
#include "head/core/events.h"

namespace rt {

// 32 bytes.
inline std::string RowsDigest(const std::vector<Row>& rows) {
  Fingerprint digest;
  for (const Row& row : rows) {
    digest.AddWord(row.seq);
    digest.AddWord(std::bit_cast<uint64_t>(row.iteration));
    digest.AddWord(std::bit_cast<uint64_t>(row.time_total_s));
    digest.AddWord(static_cast<uint64_t>(row.timestamp));
    digest.Add(row.metrics);
  }
  return digest.Finish();
}

}  // namespace rt
