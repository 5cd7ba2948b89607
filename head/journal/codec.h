// Records and snapshots to bytes and back, by proto/rt/store. The field lists of RT_FIELDS drive
// it, so a field cannot be forgotten here; one that is missing in the proto fails a test.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "head/core/core.h"

namespace rt {

std::string EncodeRecord(const Record& record);
// An unknown event type is an error that names the version that wrote it, as far as it is known.
absl::StatusOr<Record> DecodeRecord(std::string_view bytes);

std::string EncodeRows(const RowBatch& batch);
absl::StatusOr<RowBatch> DecodeRows(std::string_view bytes);

std::string EncodeState(const State& state);
absl::StatusOr<State> DecodeState(std::string_view bytes);

}  // namespace rt
