// How a file is cut: fixed pieces of limits::kChunkBytes, the last one shorter, none for an empty
// file. Fixed cuts keep unchanged shards of a checkpoint free and cost nothing. Pure.
#pragma once

#include <vector>

#include "common/base/limits.h"
#include "common/base/time.h"

namespace rt {

struct ChunkSpan {
  Bytes offset = 0;
  Bytes size = 0;
  friend bool operator==(const ChunkSpan&, const ChunkSpan&) = default;
};
std::vector<ChunkSpan> ChunkSpans(Bytes file_bytes, Bytes chunk_bytes = Bytes{limits::kChunkBytes});

}  // namespace rt
