// One chunk out of a stream of pieces, from the head or from a peer. For the .cc files of this
// folder and of who speaks gRPC anyway.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <string>

#include "common/base/limits.h"
#include "rt/v1/checkpoint.pb.h"

namespace rt {

// Reads to the end of the stream. The bytes are not verified.
inline grpc::Status TakePieces(grpc::ClientReader<v1::ChunkPiece>& reader,
                               grpc::ClientContext& context, const std::string& digest,
                               std::string& bytes) {
  bytes.clear();
  v1::ChunkPiece piece;
  bool in_order = true;
  while (in_order && reader.Read(&piece)) {
    in_order = piece.digest() == digest && piece.offset() == bytes.size() &&
               piece.size() <= limits::kChunkMessageBytesMax &&
               piece.data().size() <= piece.size() - bytes.size();
    if (!in_order) break;
    bytes.reserve(piece.size());
    bytes += piece.data();
  }
  if (!in_order) context.TryCancel();
  grpc::Status status = reader.Finish();
  if (!in_order) return grpc::Status(grpc::StatusCode::DATA_LOSS, "pieces of a chunk out of order");
  return status;
}

}  // namespace rt
