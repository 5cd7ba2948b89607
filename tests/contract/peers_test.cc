// Workers that fetch from each other over real sockets: what the head names is used where it
// serves, and nothing that a peer does can make a fetch fail or bring wrong bytes.
#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <mutex>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "common/rpc/channel.h"
#include "common/run/files.h"
#include "head/service/peer_book.h"
#include "rt/v1/checkpoint.grpc.pb.h"
#include "tests/patience.h"
#include "tests/temp_dir.h"
#include "worker/link/peer_finder.h"
#include "worker/link/peer_server.h"
#include "worker/trees/tree_files.h"

using namespace rt;
using namespace rt::worker;

namespace {

constexpr Millis kHour = 3'600'000;
constexpr size_t kTreeBytes = 9u << 20;  // Three chunks.

// The head, as far as it names sources; it names what it is told to.
class Head : public v1::WorkerService::Service {
 public:
  PeerBook book;
  std::mutex mutex;
  std::condition_variable told;
  std::set<uint64_t> failed;
  std::set<NodeId> alive;

  grpc::Status FindSources(grpc::ServerContext* context, const v1::FindSourcesRequest* request,
                           v1::FindSourcesReply* reply) override {
    std::lock_guard lock(mutex);
    const PeerBook::Ask ask{Caller(*context), request->address(), request->manifest(),
                            request->has_fence() ? replicas : std::vector<NodeId>{}};
    for (const auto& found : book.Find(ask, alive, 1)) {
      auto* source = reply->add_sources();
      source->set_node(found.node.value);
      source->set_address(found.address);
    }
    reply->set_lost(request->has_fence() && replicas.empty());
    reply->set_all(true);
    return grpc::Status::OK;
  }
  grpc::Status FindHolder(grpc::ServerContext* context, const v1::FindHolderRequest* request,
                          v1::FindHolderReply* reply) override {
    std::lock_guard lock(mutex);
    if (is_away) return {grpc::StatusCode::UNAVAILABLE, "away"};
    if (auto found = book.FindHolder(Caller(*context), request->address(), alive, 1)) {
      reply->mutable_holder()->set_node(found->node.value);
      reply->mutable_holder()->set_address(found->address);
    }
    return grpc::Status::OK;
  }
  std::vector<NodeId> replicas;       // Of what is asked for with a fence.
  std::atomic<bool> is_away = false;  // For who looks for a holder.
  grpc::Status HoldTrees(grpc::ServerContext* context, const v1::HoldTreesRequest* request,
                         v1::Empty*) override {
    std::lock_guard lock(mutex);
    PeerBook::Announced announced{.address = request->address()};
    announced.whole = {request->whole().begin(), request->whole().end()};
    announced.fetching = {request->fetching().begin(), request->fetching().end()};
    failed.insert(request->failed().begin(), request->failed().end());
    const NodeId node = Caller(*context);
    alive.insert(node);
    book.Announce(node, announced, 1);
    for (const std::string& manifest : announced.whole) whole_[node].insert(manifest);
    told.notify_all();
    return grpc::Status::OK;
  }
  void AwaitWhole(uint64_t node, const std::string& manifest) {
    std::unique_lock lock(mutex);
    REQUIRE(
        told.wait_for(lock, kPatience, [&] { return whole_[NodeId{node}].contains(manifest); }));
  }
  void AwaitAlive(uint64_t node) {
    std::unique_lock lock(mutex);
    REQUIRE(told.wait_for(lock, kPatience, [&] { return alive.contains(NodeId{node}); }));
  }
  void AwaitFailed(uint64_t node) {
    std::unique_lock lock(mutex);
    REQUIRE(told.wait_for(lock, kPatience, [&] { return failed.contains(node); }));
  }

 private:
  static NodeId Caller(const grpc::ServerContext& context) {
    auto who = PeerIdentity(*context.auth_context());
    return NodeId{who.ok() ? std::stoull(who->name) : 0};
  }
  std::map<NodeId, std::set<std::string>> whole_;
};

// The head's store; what is asked of it may be held up.
class Store : public MemStore {
 public:
  std::atomic<int> chunks = 0;
  std::shared_future<void> gate;
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    if (++chunks > 1 && gate.valid()) gate.wait();
    return MemStore::GetChunk(digest);
  }
};

struct House {
  TempDir dir{"peers"};
  const std::string& path = dir.path();
  KeyPair ca = *CreateCa("c1");
  Head head;
  Store store;
  std::unique_ptr<grpc::Server> server;
  int port = 0;

  House() {
    PrepareGrpc();
    auto own = IssueKeyPair(ca, {.cluster_id = "c1", .kind = "head", .role = "head"}, kHour, {});
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    builder.AddListeningPort("127.0.0.1:0", MakeServerCredentials({ca.certificate_pem, *own}),
                             &port);
    builder.RegisterService(&head);
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
  }
  ~House() { server->Shutdown(std::chrono::system_clock::now()); }
  Credentials NodeCredentials(uint64_t node) const {
    return {ca.certificate_pem,
            *IssueKeyPair(ca, {.cluster_id = "c1", .kind = "node", .name = std::to_string(node),
                               .role = "worker"}, kHour, {})};
  }
  StoredTree MakeTree(uint64_t seed) {
    const std::string tree = path + "/source-" + std::to_string(seed);
    Rng rng(seed);
    std::string bytes(kTreeBytes, '\0');
    for (size_t at = 0; at < bytes.size(); at += 4'096) bytes[at] = static_cast<char>(rng.Next());
    REQUIRE(EnsureDirectory(tree).ok());
    REQUIRE(WriteFileAtomic(tree + "/weights", bytes).ok());
    auto stored = StoreTree(store, tree, {});
    REQUIRE(stored.ok());
    return *stored;
  }
  std::string Weights(uint64_t seed) const {
    return *ReadFile(path + "/source-" + std::to_string(seed) + "/weights");
  }
};

struct Node {
  Node(House& of, uint64_t id, PeerServerOptions options = {})
      : house(of), number(id), path(of.path + "/node-" + std::to_string(id)),
        credentials(of.NodeCredentials(id)) {
    finder = std::make_unique<PeerFinder>(
        MakeChannel("127.0.0.1:" + std::to_string(of.port), credentials, "c1", false),
        credentials, "c1");
    REQUIRE(EnsureDirectory(path).ok());
    trees = std::make_unique<LocalTrees>(path + "/kept", KeptBounds{},
                                         [this] { finder->Changed(); });
    options.host = "127.0.0.1";
    options.replicate = [this](const PeerServerOptions::ReplicaRequest& asked) {
      auto from = finder->At(asked.manifest, asked.node, asked.address);
      asked_row = asked.row;
      return fetcher->FetchAsReplica(*from, asked.manifest, asked.fence);
    };
    server = *PeerServer::Start(options, credentials, *trees);
    finder->Start(*trees, server->address(), [] { return uint64_t{1}; });
    fetcher = std::make_unique<TreeFetcher>(of.store, *trees, finder.get());
  }
  ~Node() { finder->Stop(); }
  absl::Status Fetch(const StoredTree& tree) {
    return fetcher->Fetch(tree.manifest, path + "/out", path + "/out");
  }
  std::string Weights() const { return *ReadFile(path + "/out/weights"); }

  House& house;
  const uint64_t number;
  const std::string path;
  const Credentials credentials;
  std::unique_ptr<PeerFinder> finder;
  std::unique_ptr<LocalTrees> trees;
  std::atomic<uint64_t> asked_row = 0;
  std::unique_ptr<PeerServer> server;
  std::unique_ptr<TreeFetcher> fetcher;
};

// Under a node's certificate, but it sends what it likes.
class Liar : public v1::PeerService::Service {
 public:
  explicit Liar(std::string bytes) : bytes_(std::move(bytes)) {}
  std::atomic<int> asked = 0;
  grpc::Status PullChunks(grpc::ServerContext*, const v1::PullRequest* request,
                          grpc::ServerWriter<v1::ChunkPiece>* writer) override {
    ++asked;
    v1::ChunkPiece piece;
    piece.set_digest(request->digests(0));
    piece.set_size(bytes_.size());
    piece.set_data(bytes_);
    writer->Write(piece);
    return grpc::Status::OK;
  }

 private:
  const std::string bytes_;
};

absl::Status Pull(const std::string& address, const Credentials& credentials,
                  const std::string& name, const std::string& digest) {
  auto stub = v1::PeerService::NewStub(MakeNamedChannel(address, credentials, name, true));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::PullRequest request;
  request.add_digests(digest);
  auto reader = stub->PullChunks(&context, request);
  for (v1::ChunkPiece piece; reader->Read(&piece);) continue;
  return FromGrpc(reader->Finish());
}

std::string FirstChunk(const StoredTree& tree) {
  return ParseManifest(tree.text)->entries.front().chunks.front();
}

}  // namespace

TEST_CASE("peers: eight nodes that fetch at once take one copy from the store") {
  House house;
  const StoredTree tree = house.MakeTree(1);
  std::promise<void> open;
  house.store.gate = open.get_future().share();
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::future<absl::Status>> fetches;
  for (uint64_t id = 1; id <= 8; ++id) {
    nodes.push_back(std::make_unique<Node>(house, id));
    nodes.back()->finder->Changed();
    house.head.AwaitAlive(id);
  }
  // The first has begun when the others come: its first chunk is there, the next are held up.
  for (auto& node : nodes) {
    fetches.push_back(std::async(std::launch::async, [&node, &tree] { return node->Fetch(tree); }));
    while (house.store.chunks == 0) std::this_thread::yield();
  }
  open.set_value();
  for (auto& fetch : fetches) CHECK(fetch.get().ok());
  for (auto& node : nodes) CHECK(node->Weights() == house.Weights(1));
  CHECK(house.store.chunks <= 2 * 3);
  CHECK(house.head.failed.empty());
}

TEST_CASE("peers: a tree that the store lacks is replicated, and fetched from the replica") {
  House house;
  const Fence fence{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};
  MemStore other;  // Where its manifest comes from: the house's store stays empty.
  auto first = std::make_unique<Node>(house, 1);
  const std::string source = first->path + "/saved";
  REQUIRE(EnsureDirectory(source).ok());
  REQUIRE(WriteFileAtomic(source + "/weights", std::string(100'000, 'w')).ok());
  const StoredTree tree = *StoreTree(other, source, {});
  REQUIRE(first->trees->AddReplica(fence, tree.manifest, tree.text, source, FileClock()).ok());
  house.head.AwaitWhole(1, tree.manifest);
  // Nobody else is there.
  CHECK(absl::IsUnavailable(first->finder->Replicate(tree.manifest, fence, 5).status()));
  Node second(house, 2);
  second.finder->Changed();
  house.head.AwaitAlive(2);
  auto holder = first->finder->Replicate(tree.manifest, fence, 5);
  REQUIRE(holder.ok());
  CHECK(*holder == 2);
  CHECK(second.trees->Replicas().size() == 1);
  CHECK(second.asked_row == 5);
  CHECK(first->finder->Replicate(tree.manifest, fence, 5).ok());  // Asked again, it holds on.
  house.head.is_away = true;  // Then who held the last one is asked, where there is one.
  CHECK(first->finder->Replicate(tree.manifest, fence, 5).ok());
  CHECK(absl::IsUnavailable(second.finder->Replicate(tree.manifest, fence, 5).status()));
  house.head.is_away = false;
  first.reset();
  Node third(house, 3);
  const auto fetch = [&] {
    return third.fetcher->FetchReplica(tree.manifest, fence, third.path + "/out");
  };
  {
    std::lock_guard lock(house.head.mutex);
    house.head.replicas = {NodeId{2}};
    house.head.alive.erase(NodeId{1});
  }
  REQUIRE(fetch().ok());
  CHECK(third.Weights() == std::string(100'000, 'w'));
  third.fetcher->Leave(third.path + "/out", false);
  REQUIRE(RemoveTree(third.path + "/out").ok());
  // Who holds it lost its bytes: nobody has it. Before that is known, nobody serves it now.
  second.trees->Release(fence, tree.manifest);
  second.trees->FreeSpace();
  CHECK(absl::IsNotFound(fetch()));
  second.server.reset();
  CHECK(absl::IsUnavailable(fetch()));
  {
    std::lock_guard lock(house.head.mutex);
    house.head.replicas.clear();
  }
  CHECK(absl::IsDataLoss(fetch()));
}

TEST_CASE("peers: what one had is fetched from it; one that is gone is skipped, and it is said") {
  House house;
  const StoredTree tree = house.MakeTree(1);
  auto first = std::make_unique<Node>(house, 1);
  REQUIRE(first->Fetch(tree).ok());
  CHECK(house.store.chunks == 3);
  house.head.AwaitWhole(1, tree.manifest);
  Node second(house, 2);
  SECTION("it serves") {
    REQUIRE(second.Fetch(tree).ok());
    CHECK(house.store.chunks == 3);
    CHECK(first->server->served() == Bytes{kTreeBytes});
  }
  SECTION("it is gone") {
    first->finder->Stop();
    first->server.reset();
    REQUIRE(second.Fetch(tree).ok());
    CHECK(house.store.chunks == 6);
    house.head.AwaitFailed(1);
  }
  SECTION("its bytes have changed") {
    REQUIRE(WriteFileAtomic(first->path + "/out/weights", std::string(kTreeBytes, 'x')).ok());
    REQUIRE(second.Fetch(tree).ok());
    CHECK(house.store.chunks == 6);
  }
  CHECK(second.Weights() == house.Weights(1));
}

TEST_CASE("peers: what a liar sends is not believed") {
  House house;
  const StoredTree tree = house.MakeTree(1);
  const std::string wrong = GENERATE(std::string("short"), std::string(1u << 20, 'x'));
  Liar liar(wrong);
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", MakeServerCredentials(house.NodeCredentials(1)), &port);
  builder.RegisterService(&liar);
  auto server = builder.BuildAndStart();
  house.head.alive.insert(NodeId{1});
  house.head.book.Announce(NodeId{1},
                           {"127.0.0.1:" + std::to_string(port), {tree.manifest}, {}, {}}, 1);
  Node node(house, 2);
  REQUIRE(node.Fetch(tree).ok());
  CHECK(node.Weights() == house.Weights(1));
  CHECK(liar.asked > 0);
  house.head.AwaitFailed(1);
}

TEST_CASE("peers: only workers of this cluster are served, and only by whom the head named") {
  House house;
  const StoredTree tree = house.MakeTree(1);
  Node node(house, 1);
  REQUIRE(node.Fetch(tree).ok());
  const std::string chunk = FirstChunk(tree), name = NodeName("c1", "1");
  const std::string address = node.server->address();
  CHECK(Pull(address, house.NodeCredentials(2), name, chunk).ok());
  CHECK(absl::IsNotFound(Pull(address, house.NodeCredentials(2), name,
                              "b3:" + std::string(64, 'f'))));
  // Another node's name, and the head's.
  CHECK(!Pull(address, house.NodeCredentials(2), NodeName("c1", "3"), chunk).ok());
  CHECK(!Pull(address, house.NodeCredentials(2), HeadName("c1"), chunk).ok());
  const Credentials user{house.ca.certificate_pem,
                         *IssueKeyPair(house.ca, {.cluster_id = "c1", .kind = "user",
                                                  .name = "ada", .role = "admin"}, kHour, {})};
  CHECK(absl::IsPermissionDenied(Pull(address, user, name, chunk)));
  const KeyPair other = *CreateCa("c1");
  const Credentials stranger{house.ca.certificate_pem,
                             *IssueKeyPair(other, {.cluster_id = "c1", .kind = "node",
                                                   .name = "2", .role = "worker"}, kHour, {})};
  CHECK(absl::IsUnavailable(Pull(address, stranger, name, chunk)));
}

TEST_CASE("peers: a node serves so many streams and bytes a second, and no more") {
  House house;
  const StoredTree tree = house.MakeTree(1);
  SECTION("streams") {
    Node busy(house, 1, {.streams_max = 0});
    REQUIRE(busy.Fetch(tree).ok());
    CHECK(absl::IsResourceExhausted(Pull(busy.server->address(), house.NodeCredentials(2),
                                         NodeName("c1", "1"), FirstChunk(tree))));
    house.head.AwaitWhole(1, tree.manifest);
    Node other(house, 2);
    REQUIRE(other.Fetch(tree).ok());
    CHECK(other.Weights() == house.Weights(1));
    CHECK(house.head.failed.empty());  // It is busy, not broken.
  }
  SECTION("bytes") {
    Node slow(house, 1, {.bytes_per_second = 16 << 20});
    REQUIRE(slow.Fetch(tree).ok());
    const auto begin = std::chrono::steady_clock::now();
    CHECK(Pull(slow.server->address(), house.NodeCredentials(2), NodeName("c1", "1"),
               FirstChunk(tree)).ok());
    CHECK(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(150));  // 4 MiB.
  }
}
