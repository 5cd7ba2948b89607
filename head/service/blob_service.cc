// Bytes in and out of the blob store; everything that touches files runs on the io pool.
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "head/service/services.h"
#include "head/service/translate.h"
#include "rt/v1/checkpoint.grpc.pb.h"

namespace rt {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;
// What a push may hold back until it is worth a write: small chunks that come one after another
// share one.
constexpr size_t kHeldBytesMax = 16u << 20;
constexpr size_t kHeldChunksMax = 1'000;

// Collects the pieces of one chunk after another; what is whole is stored when enough of it has
// come, or the stream ends. The reply follows the last write.
class PushReader final : public grpc::ServerReadReactor<v1::ChunkPiece> {
 public:
  PushReader(Edge& edge, v1::PushReply* reply, const absl::Status& admitted)
      : edge_(edge), reply_(reply) {
    if (!admitted.ok()) Finish(ToGrpc(admitted));
    else StartRead(&piece_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      if (!chunk_.empty()) return Finish(ToGrpc(Invalid("the last chunk is cut short")));
      return Store(true);
    }
    if (absl::Status taken = Take(); !taken.ok()) return Finish(ToGrpc(taken));
    if (chunk_.size() < piece_.size()) return StartRead(&piece_);
    held_bytes_ += chunk_.size();
    held_.emplace_back(digest_, std::exchange(chunk_, ""));
    if (held_bytes_ < kHeldBytesMax && held_.size() < kHeldChunksMax) return StartRead(&piece_);
    Store(false);
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Take() {
    RT_RETURN_IF_ERROR(CheckSize("a chunk", piece_.size(), limits::kChunkBytes));
    if (piece_.offset() != chunk_.size() || (!chunk_.empty() && piece_.digest() != digest_))
      return Invalid("the pieces of a chunk come in order, one chunk after another");
    if (piece_.data().size() > piece_.size() - piece_.offset())
      return Invalid("a piece goes beyond its chunk");
    if (piece_.data().empty() && piece_.size() != 0) return Invalid("a piece is empty");
    digest_ = piece_.digest();
    chunk_.reserve(piece_.size());
    chunk_ += piece_.data();
    return absl::OkStatus();
  }
  void Store(bool last) {
    edge_.io([this, last] {
      std::vector<NamedChunk> chunks;
      for (const auto& [digest, bytes] : held_) chunks.push_back({digest, bytes});
      absl::Status put = Put(chunks);
      if (!put.ok()) return Finish(ToGrpc(put));
      chunks_ += held_.size();
      held_.clear();
      held_bytes_ = 0;
      if (!last) return StartRead(&piece_);
      reply_->set_chunks(chunks_);
      Finish(grpc::Status::OK);
    });
  }

  absl::Status Put(const std::vector<NamedChunk>& chunks) {
    RT_RETURN_IF_ERROR(FailAt("head.store.before_chunks"));
    RT_RETURN_IF_ERROR(edge_.blobs.PutChunks(chunks));
    return FailAt("head.store.after_chunks");
  }

  Edge& edge_;
  v1::PushReply* reply_;
  v1::ChunkPiece piece_;
  std::vector<std::pair<std::string, std::string>> held_;  // Digest, bytes.
  size_t held_bytes_ = 0;
  std::string digest_;
  std::string chunk_;
  uint64_t chunks_ = 0;
};

class PullWriter final : public grpc::ServerWriteReactor<v1::ChunkPiece> {
 public:
  PullWriter(Edge& edge, const v1::PullRequest& request, absl::Status admitted)
      : edge_(edge), digests_(request.digests().begin(), request.digests().end()) {
    if (admitted.ok() && request.digests_size() > limits::kDigestsMax)
      admitted = Invalid("at most 10000 digests in one call");
    if (!admitted.ok()) Finish(ToGrpc(admitted));
    else NextChunk();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (offset_ < chunk_.size()) return NextPiece();
    ++next_;
    NextChunk();
  }
  void OnDone() override { delete this; }

 private:
  void NextChunk() {
    if (next_ == digests_.size()) return Finish(grpc::Status::OK);
    edge_.io([this] {
      absl::StatusOr<std::string> chunk = edge_.blobs.GetChunk(digests_[next_]);
      if (!chunk.ok()) return Finish(ToGrpc(chunk.status()));
      chunk_ = std::move(*chunk);
      offset_ = 0;
      NextPiece();
    });
  }
  void NextPiece() {
    size_t bytes = std::min(limits::kStreamPieceBytes, chunk_.size() - offset_);
    piece_.set_digest(digests_[next_]);
    piece_.set_offset(offset_);
    piece_.set_size(chunk_.size());
    piece_.set_data(chunk_.data() + offset_, bytes);
    offset_ += bytes;
    StartWrite(&piece_);
  }
  Edge& edge_;
  std::vector<std::string> digests_;
  size_t next_ = 0;
  std::string chunk_;
  size_t offset_ = 0;
  v1::ChunkPiece piece_;
};

class BlobService final : public v1::BlobService::CallbackService {
 public:
  explicit BlobService(Edge& edge) : edge_(edge) {}

  Reactor* FindMissing(Context* context, const v1::FindMissingRequest* request,
                       v1::FindMissingReply* reply) override {
    return Unary(edge_, context, "BlobService/FindMissing", [&](auto&, Reactor* reactor) {
      if (request->digests_size() > limits::kDigestsMax)
        return reactor->Finish(ToGrpc(Invalid("at most 10000 digests in one call")));
      edge_.io([this, request, reply, reactor] {
        auto missing = edge_.blobs.FindMissing(
            {request->digests().begin(), request->digests().end()});
        if (missing.ok())
          for (auto& digest : *missing) reply->add_digests(std::move(digest));
        reactor->Finish(ToGrpc(missing.status()));
      });
    });
  }
  grpc::ServerReadReactor<v1::ChunkPiece>* PushChunks(Context* context,
                                                      v1::PushReply* reply) override {
    return new PushReader(edge_, reply, Admit(edge_, *context, "BlobService/PushChunks").status());
  }
  grpc::ServerWriteReactor<v1::ChunkPiece>* PullChunks(Context* context,
                                                       const v1::PullRequest* request) override {
    return new PullWriter(edge_, *request,
                          Admit(edge_, *context, "BlobService/PullChunks").status());
  }
  Reactor* PutManifest(Context* context, const v1::PutManifestRequest* request,
                       v1::PutManifestReply* reply) override {
    return Unary(edge_, context, "BlobService/PutManifest", [&](auto&, Reactor* reactor) {
      edge_.io([this, request, reply, reactor] {
        auto digest = Put(request->manifest());
        if (digest.ok()) reply->set_digest(*digest);
        reactor->Finish(ToGrpc(digest.status()));
      });
    });
  }
  Reactor* GetManifest(Context* context, const v1::GetManifestRequest* request,
                       v1::GetManifestReply* reply) override {
    return Unary(edge_, context, "BlobService/GetManifest", [&](auto&, Reactor* reactor) {
      edge_.io([this, request, reply, reactor] {
        auto text = edge_.blobs.GetManifest(request->digest());
        if (text.ok()) reply->set_manifest(*text);
        reactor->Finish(ToGrpc(text.status()));
      });
    });
  }

 private:
  absl::StatusOr<std::string> Put(const std::string& manifest) {
    RT_RETURN_IF_ERROR(FailAt("head.store.before_manifest"));
    RT_ASSIGN_OR_RETURN(std::string digest, edge_.blobs.PutManifest(manifest));
    RT_RETURN_IF_ERROR(FailAt("head.store.after_manifest"));
    return digest;
  }

  Edge& edge_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBlobService(Edge& edge) {
  return std::make_unique<BlobService>(edge);
}

}  // namespace rt
