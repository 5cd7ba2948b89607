// Compression of a chunk (zstd, level 1), where it pays: two samples decide, so that weights, which
// hardly shrink, cost no time. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rt {

enum class Codec : uint8_t { kRaw = 0, kZstd = 1 };

// nullopt when the result would be above 97 % of the bytes.
std::optional<std::string> CompressIfItPays(std::string_view bytes);
// DataLoss unless exactly `size` bytes come out.
absl::StatusOr<std::string> Decompress(std::string_view compressed, size_t size);

}  // namespace rt
