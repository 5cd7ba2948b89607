#include "common/cas/chunker.h"

#include <algorithm>

namespace rt {

std::vector<ChunkSpan> ChunkSpans(Bytes file_bytes, Bytes chunk_bytes) {
  std::vector<ChunkSpan> spans;
  for (Bytes offset = 0; offset < file_bytes; offset += chunk_bytes)
    spans.push_back({offset, std::min(chunk_bytes, file_bytes - offset)});
  return spans;
}

}  // namespace rt
