// Where the tensors of a file lie, so that it can be cut at their ends: zip files as torch.save and
// numpy.savez write them (stored entries), and safetensors. Pure; the file is read through a
// function and never trusted: on anything odd there are no tensors, and the cuts are fixed ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/cas/chunker.h"

namespace rt {

// Exactly `size` bytes at `offset`; false when they are not there.
using ReadAt = std::function<bool(Bytes offset, Bytes size, std::string& bytes)>;

// Ascending, without overlaps, within the file.
std::vector<ChunkSpan> FindTensors(const ReadAt& read, Bytes file_bytes);

// Cuts at the ends of the tensors: what precedes the first and follows the last is apart, a large
// tensor is cut into pieces of at most `chunk_bytes` from its own start, small neighbours share a
// chunk. Where a tensor is cut depends on sizes within its neighbourhood only, so that what did not
// change is cut as before although it lies elsewhere.
std::vector<ChunkSpan> CutAtTensors(const std::vector<ChunkSpan>& tensors, Bytes file_bytes,
                                    Bytes chunk_bytes = Bytes{limits::kChunkBytes});
// Below this a tensor shares a chunk: 64 KiB, doubled until a file has at most 2048 such pieces.
Bytes SmallTensorBytes(Bytes file_bytes);

}  // namespace rt
