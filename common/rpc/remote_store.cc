#include "common/rpc/remote_store.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/cas/parallel.h"
#include "common/rpc/channel.h"
#include "common/rpc/chunk_pieces.h"
#include "common/run/failpoint.h"
#include "rt/v1/checkpoint.grpc.pb.h"

namespace rt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Millis kPauseFirst = 50;
constexpr Millis kPauseMax = 2'000;
// One attempt: a chunk at 70 kB/s still passes (and a full stream at 280 kB/s), a call that hangs
// does not hang for ever.
constexpr Millis kAttemptFor = 60'000;
constexpr size_t kDigestsPerQuestion = 10'000;
constexpr size_t kBytesPerStream = 16u << 20;
constexpr size_t kStreamsAtOnce = 4;

}  // namespace

struct RemoteStore::Impl {
  std::unique_ptr<v1::BlobService::Stub> stub;
  Millis retry_for;
  std::atomic<size_t> chunks_pushed = 0;

  // Runs `attempt(context) -> grpc::Status` until it answers with anything but UNAVAILABLE (and
  // what arrives as that, FromGrpc).
  template <class Attempt>
  absl::Status Retry(Attempt&& attempt) const {
    const auto give_up = Clock::now() + std::chrono::milliseconds(retry_for);
    for (Millis pause = kPauseFirst;; pause = std::min(pause * 2, kPauseMax)) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(kAttemptFor));
      absl::Status status = FromGrpc(attempt(context));
      const auto wake = Clock::now() + std::chrono::milliseconds(pause);
      if (!absl::IsUnavailable(status) || wake >= give_up) return status;
      std::this_thread::sleep_until(wake);
    }
  }

  grpc::Status Push(grpc::ClientContext& context, const std::vector<NamedChunk>& chunks) const;
  static bool WritePieces(grpc::ClientWriter<v1::ChunkPiece>& writer, const NamedChunk& chunk);
  grpc::Status Pull(grpc::ClientContext& context, const std::string& digest,
                    std::string& bytes) const;
};

// False when the stream has ended.
bool RemoteStore::Impl::WritePieces(grpc::ClientWriter<v1::ChunkPiece>& writer,
                                    const NamedChunk& chunk) {
  size_t offset = 0;
  do {
    v1::ChunkPiece piece;
    std::string_view data = chunk.bytes.substr(offset, limits::kStreamPieceBytes);
    piece.set_digest(chunk.digest);
    piece.set_offset(offset);
    piece.set_size(chunk.bytes.size());
    piece.set_data(data.data(), data.size());
    if (!writer.Write(piece)) return false;
    offset += data.size();
  } while (offset < chunk.bytes.size());
  return true;
}

grpc::Status RemoteStore::Impl::Push(grpc::ClientContext& context,
                                     const std::vector<NamedChunk>& chunks) const {
  v1::PushReply reply;
  auto writer = stub->PushChunks(&context, &reply);
  for (const NamedChunk& chunk : chunks) {
    if (!WritePieces(*writer, chunk)) return writer->Finish();
    ReachFailpoint("worker.checkpoint.mid_push");
  }
  writer->WritesDone();
  return writer->Finish();
}

grpc::Status RemoteStore::Impl::Pull(grpc::ClientContext& context, const std::string& digest,
                                     std::string& bytes) const {
  v1::PullRequest request;
  request.add_digests(digest);
  auto reader = stub->PullChunks(&context, request);
  return TakePieces(*reader, context, digest, bytes);
}

RemoteStore::RemoteStore(std::shared_ptr<grpc::Channel> channel, Millis retry_for)
    : impl_(std::make_unique<Impl>()) {
  impl_->stub = v1::BlobService::NewStub(channel);
  impl_->retry_for = retry_for;
}

RemoteStore::~RemoteStore() = default;

absl::StatusOr<std::vector<std::string>> RemoteStore::FindMissing(
    const std::vector<std::string>& digests) {
  std::vector<std::string> missing;
  for (size_t start = 0; start < digests.size(); start += kDigestsPerQuestion) {
    v1::FindMissingRequest request;
    for (size_t i = start; i < std::min(digests.size(), start + kDigestsPerQuestion); ++i)
      request.add_digests(digests[i]);
    v1::FindMissingReply reply;
    RT_RETURN_IF_ERROR(impl_->Retry([&](grpc::ClientContext& context) {
      return impl_->stub->FindMissing(&context, request, &reply);
    }));
    missing.insert(missing.end(), reply.digests().begin(), reply.digests().end());
  }
  return missing;
}

absl::Status RemoteStore::PutChunk(const std::string& digest, std::string_view bytes) {
  return PutChunks({{digest, bytes}});
}

absl::Status RemoteStore::PutChunks(const std::vector<NamedChunk>& chunks) {
  // A stream has a deadline: few enough bytes for a slow line, many enough for a quick one. While
  // the head syncs what one brought, the others go on.
  std::vector<std::vector<NamedChunk>> streams;
  size_t bytes = 0;
  for (const NamedChunk& chunk : chunks) {
    bytes += chunk.bytes.size();
    if (streams.empty() || bytes > kBytesPerStream) {
      streams.emplace_back();
      bytes = chunk.bytes.size();
    }
    streams.back().push_back(chunk);
  }
  return ForEachParallel(streams.size(), kStreamsAtOnce, [&](size_t number) {
    absl::Status pushed = impl_->Retry([&](grpc::ClientContext& context) {
      return impl_->Push(context, streams[number]);
    });
    if (pushed.ok()) impl_->chunks_pushed += streams[number].size();
    return pushed;
  });
}

size_t RemoteStore::chunks_pushed() const { return impl_->chunks_pushed; }

absl::StatusOr<std::string> RemoteStore::GetChunk(const std::string& digest) {
  std::string bytes;
  RT_RETURN_IF_ERROR(impl_->Retry(
      [&](grpc::ClientContext& context) { return impl_->Pull(context, digest, bytes); }));
  RT_RETURN_IF_ERROR(VerifyDigest(digest, bytes));
  return bytes;
}

absl::StatusOr<std::string> RemoteStore::PutManifest(std::string_view text) {
  RT_RETURN_IF_ERROR(FailAt("worker.checkpoint.before_manifest"));
  v1::PutManifestRequest request;
  request.set_manifest(text.data(), text.size());
  v1::PutManifestReply reply;
  RT_RETURN_IF_ERROR(impl_->Retry([&](grpc::ClientContext& context) {
    return impl_->stub->PutManifest(&context, request, &reply);
  }));
  return reply.digest();
}

absl::StatusOr<std::string> RemoteStore::GetManifest(const std::string& digest) {
  v1::GetManifestRequest request;
  request.set_digest(digest);
  v1::GetManifestReply reply;
  RT_RETURN_IF_ERROR(impl_->Retry([&](grpc::ClientContext& context) {
    return impl_->stub->GetManifest(&context, request, &reply);
  }));
  RT_RETURN_IF_ERROR(VerifyDigest(digest, reply.manifest()));
  return reply.manifest();
}

}  // namespace rt
