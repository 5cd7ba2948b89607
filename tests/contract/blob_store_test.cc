#include <grpcpp/grpcpp.h>

#include <filesystem>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/cas/dir_objects.h"
#include "common/cas/dir_store.h"
#include "common/cas/mem_objects.h"
#include "common/cas/mem_store.h"
#include "common/cas/pack_store.h"
#include "common/cas/store_space.h"
#include "common/rpc/channel.h"
#include "common/rpc/remote_store.h"
#include "common/run/files.h"
#include "rt/v1/checkpoint.grpc.pb.h"
#include "tests/contract/blob_store_suite.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

// The least that BlobService may be: a MemStore behind it.
class FakeBlobService : public v1::BlobService::Service {
 public:
  MemStore store;
  std::atomic<int> refusals{0};  // So many calls are answered with `refusal`.
  grpc::Status refusal{grpc::StatusCode::UNAVAILABLE, "not now"};

  grpc::Status FindMissing(grpc::ServerContext*, const v1::FindMissingRequest* request,
                           v1::FindMissingReply* reply) override {
    if (refusals-- > 0) return refusal;
    auto missing = store.FindMissing({request->digests().begin(), request->digests().end()});
    if (missing.ok()) reply->mutable_digests()->Assign(missing->begin(), missing->end());
    return ToGrpc(missing.status());
  }
  grpc::Status PushChunks(grpc::ServerContext*, grpc::ServerReader<v1::ChunkPiece>* reader,
                          v1::PushReply*) override {
    if (refusals-- > 0) return refusal;
    v1::ChunkPiece piece;
    std::string bytes;
    while (reader->Read(&piece)) {
      if (piece.offset() != bytes.size() || piece.data().size() > limits::kStreamPieceBytes)
        return {grpc::StatusCode::INVALID_ARGUMENT, "a piece out of order"};
      bytes += piece.data();
      if (bytes.size() < piece.size()) continue;
      absl::Status put = store.PutChunk(piece.digest(), std::exchange(bytes, ""));
      if (!put.ok()) return ToGrpc(put);
    }
    return bytes.empty() ? grpc::Status::OK
                         : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "cut short");
  }
  grpc::Status PullChunks(grpc::ServerContext*, const v1::PullRequest* request,
                          grpc::ServerWriter<v1::ChunkPiece>* writer) override {
    if (refusals-- > 0) return refusal;
    auto bytes = store.GetChunk(request->digests(0));
    if (!bytes.ok()) return ToGrpc(bytes.status());
    for (size_t offset = 0; offset < bytes->size(); offset += limits::kStreamPieceBytes) {
      v1::ChunkPiece piece;
      piece.set_digest(request->digests(0));
      piece.set_offset(offset);
      piece.set_size(bytes->size());
      piece.set_data(bytes->substr(offset, limits::kStreamPieceBytes));
      writer->Write(piece);
    }
    return grpc::Status::OK;
  }
  grpc::Status PutManifest(grpc::ServerContext*, const v1::PutManifestRequest* request,
                           v1::PutManifestReply* reply) override {
    auto digest = store.PutManifest(request->manifest());
    if (digest.ok()) reply->set_digest(*digest);
    return ToGrpc(digest.status());
  }
  grpc::Status GetManifest(grpc::ServerContext*, const v1::GetManifestRequest* request,
                           v1::GetManifestReply* reply) override {
    auto text = store.GetManifest(request->digest());
    if (text.ok()) reply->set_manifest(*text);
    return ToGrpc(text.status());
  }
};

struct RemoteHouse {
  FakeBlobService service;
  std::unique_ptr<grpc::Server> server;
  std::shared_ptr<grpc::Channel> channel;

  RemoteHouse() {
    PrepareGrpc();
    KeyPair ca = *CreateCa("c1");
    KeyPair head = *IssueKeyPair(ca, {.cluster_id = "c1", .kind = "head", .role = "head"},
                                 3'600'000, {});
    KeyPair node = *IssueKeyPair(
        ca, {.cluster_id = "c1", .kind = "node", .name = "1", .role = "worker"}, 3'600'000, {});
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", MakeServerCredentials({ca.certificate_pem, head}),
                             &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    channel = MakeChannel("127.0.0.1:" + std::to_string(port), {ca.certificate_pem, node}, "c1",
                          true);
  }
};

}  // namespace

TEST_CASE("blob store contract: memory") {
  MemStore store;
  contract::CheckAll(store);
}

TEST_CASE("blob store contract: directory") {
  TempDir directory("blob");
  auto store = DirStore::Open(directory.File("blobs"));
  REQUIRE(store.ok());
  contract::CheckAll(**store);
}

TEST_CASE("blob store contract: packs in memory") {
  MemObjects objects;
  auto store = PackStore::Open(objects);
  REQUIRE(store.ok());
  contract::CheckAll(**store);
  // What another process put is found at the next opening.
  auto again = PackStore::Open(objects);
  REQUIRE(again.ok());
  for (int i = 0; i < 300; ++i)
    CHECK(*(*again)->GetChunk(Digest("small " + std::to_string(i))) ==
          "small " + std::to_string(i));
}

TEST_CASE("blob store contract: packs in a directory") {
  TempDir directory("blob");
  auto objects = DirObjects::Open(directory.File("objects"));
  REQUIRE(objects.ok());
  auto store = PackStore::Open(**objects);
  REQUIRE(store.ok());
  contract::CheckAll(**store);
}

TEST_CASE("blob store contract: remote") {
  RemoteHouse house;
  RemoteStore store(house.channel);
  contract::CheckAll(store);
}

TEST_CASE("remote store: UNAVAILABLE is retried for a while, then returned") {
  RemoteHouse house;
  house.service.refusals = 3;
  RemoteStore patient(house.channel);
  CHECK(patient.PutChunk(Digest("x"), "x").ok());
  house.service.refusals = 1'000'000;
  RemoteStore hasty(house.channel, 200);
  CHECK(absl::IsUnavailable(hasty.FindMissing({Digest("x")}).status()));
  CHECK(absl::IsUnavailable(hasty.GetChunk(Digest("x")).status()));
}

TEST_CASE("remote store: a head that ends in the middle of a call is asked again") {
  RemoteHouse house;
  house.service.refusal = grpc::Status::CANCELLED;
  RemoteStore store(house.channel);
  house.service.refusals = 1;
  CHECK(store.PutChunk(Digest("x"), "x").ok());
  house.service.refusals = 1;
  CHECK(store.GetChunk(Digest("x")).ok());
}

TEST_CASE("remote store: bytes damaged at the other end are noticed") {
  RemoteHouse house;
  RemoteStore store(house.channel);
  REQUIRE(store.PutChunk(Digest("abc"), "abc").ok());
  house.service.store.Damage(Digest("abc"));
  CHECK(absl::IsDataLoss(store.GetChunk(Digest("abc")).status()));
}

TEST_CASE("directory store: what was put is there after a reopening, and damage is noticed") {
  TempDir directory("blob");
  std::string digest = Digest("bytes");
  {
    auto store = DirStore::Open(directory.path());
    REQUIRE((*store)->PutChunk(digest, "bytes").ok());
  }
  auto store = DirStore::Open(directory.path());
  CHECK(*(*store)->GetChunk(digest) == "bytes");
  std::string path =
      directory.path() + "/chunks/" + std::string(DigestHex(digest).substr(0, 2)) + "/" + digest;
  REQUIRE(WriteFileAtomic(path, "bites").ok());
  CHECK(absl::IsDataLoss((*store)->GetChunk(digest).status()));
  REQUIRE((*store)->PutChunk(digest, "bytes").ok());
  CHECK(*(*store)->GetChunk(digest) == "bytes");
}

TEST_CASE("directory store: a sweep keeps what lives and what is young") {
  TempDir directory("blob");
  auto store = DirStore::Open(directory.path());
  for (const char* bytes : {"live", "dead"}) REQUIRE((*store)->PutChunk(Digest(bytes), bytes).ok());
  auto live = (*store)->PutManifest(contract::ManifestOf("live"));
  auto dead = (*store)->PutManifest(contract::ManifestOf("dead"));
  auto young = (*store)->Sweep({*live}, 60'000);
  REQUIRE(young.ok());
  CHECK(young->manifests == 0);
  CHECK(young->chunks == 0);
  auto swept = (*store)->Sweep({*live}, -1'000);
  REQUIRE(swept.ok());
  CHECK(swept->manifests == 1);
  CHECK(swept->chunks == 1);
  CHECK((*store)->GetManifest(*live).ok());
  CHECK((*store)->GetChunk(Digest("live")).ok());
  CHECK(absl::IsNotFound((*store)->GetManifest(*dead).status()));
  CHECK(absl::IsNotFound((*store)->GetChunk(Digest("dead")).status()));
}

TEST_CASE("directory store: a manifest that is being read, and what it names, is young again") {
  TempDir directory("blob");
  auto store = DirStore::Open(directory.path());
  REQUIRE((*store)->PutChunk(Digest("dead"), "dead").ok());
  auto dead = (*store)->PutManifest(contract::ManifestOf("dead"));
  for (const char* name : {"manifests", "chunks"})
    for (const auto& file : std::filesystem::recursive_directory_iterator(directory.File(name)))
      std::filesystem::last_write_time(file, std::filesystem::file_time_type::min());
  REQUIRE((*store)->GetManifest(*dead).ok());
  REQUIRE((*store)->Sweep({}, 60'000).ok());
  CHECK(*(*store)->GetChunk(Digest("dead")) == "dead");
  CHECK((*store)->GetManifest(*dead).ok());
}

TEST_CASE("directory store: a disk is not filled, and the error says how much is needed") {
  CHECK(SpaceKeptFree(Bytes{100} << 30) == Bytes{2} << 30);
  CHECK(SpaceKeptFree(Bytes{10'000'000'000}) == 500'000'000);
  CHECK(SpaceKeptFree(Bytes{1} << 30) == Bytes{160} << 20);
  CHECK(SpaceKeptFree(Bytes{8} << 20) == Bytes{2} << 20);
  TempDir directory("blob");
  CHECK(CheckSpace(directory.path(), 1).ok());
  absl::Status refused = CheckSpace(directory.path(), Bytes{1} << 60);
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(MessageOf(refused).find("are to be written") != std::string::npos);
  CHECK(HintOf(refused).find("checkpoint_store") != std::string::npos);
}
