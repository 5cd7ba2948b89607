#include "worker/link/peer_finder.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/rpc/channel.h"
#include "common/rpc/chunk_pieces.h"
#include "rt/v1/checkpoint.grpc.pb.h"
#include "worker/link/wire.h"

namespace rt::worker {
namespace {

constexpr auto kFindDeadline = std::chrono::milliseconds(2'000);
constexpr auto kAskFirst = std::chrono::milliseconds(500);  // Where one is known already.
constexpr auto kSayDeadline = std::chrono::seconds(5);
// A peer whose machine is gone does not even refuse.
constexpr auto kConnectWithin = std::chrono::seconds(1);
// As long as the head is given (common/rpc/remote_store.cc).
constexpr auto kChunkWithin = std::chrono::seconds(60);
constexpr auto kHoldWithin = std::chrono::minutes(10);  // The whole tree; then the store is next.
constexpr auto kSayEvery = std::chrono::seconds(30);
constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr auto kSayAfter = std::chrono::milliseconds(50);

std::chrono::system_clock::time_point In(std::chrono::milliseconds span) {
  return std::chrono::system_clock::now() + span;
}

// Connects first where that is due. Who refuses is not tried again.
bool IsConnected(grpc::Channel& channel) {
  const auto deadline = In(kConnectWithin);
  grpc_connectivity_state state = channel.GetState(true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    if (!channel.WaitForStateChange(state, deadline)) return false;
    state = channel.GetState(true);
  }
  return state == GRPC_CHANNEL_READY;
}

}  // namespace

// One after another: whoever fails once is asked no more.
class PeerFinder::Peers : public BlobSource {
 public:
  Peers(PeerFinder& owner, std::string manifest, const v1::FindSourcesReply& found)
      : owner_(owner), manifest_(std::move(manifest)) {
    for (const v1::Source& source : found.sources()) {
      Peer peer{.node = source.node(), .channel = owner.ChannelTo(source)};
      peer.stub = v1::PeerService::NewStub(peer.channel);
      peers_.push_back(std::move(peer));
    }
  }

  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    for (size_t number = current_; number < peers_.size(); number = current_) {
      auto bytes = Pull(peers_[number], digest);
      if (bytes.ok()) return bytes;
      Skip(number, bytes.status());
    }
    if (lack_it_) return NotFound("no other worker has " + digest);
    return absl::UnavailableError("no other worker serves it");
  }
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override {
    return GetChunk(digest);
  }

 private:
  struct Peer {
    uint64_t node = 0;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::PeerService::Stub> stub;
  };
  absl::StatusOr<std::string> Pull(const Peer& peer, const std::string& digest) const {
    if (!IsConnected(*peer.channel)) return absl::UnavailableError("no connection");
    grpc::ClientContext context;
    context.set_deadline(In(kChunkWithin));
    v1::PullRequest request;
    request.add_digests(digest);
    request.set_manifest(manifest_);
    std::string bytes;
    auto reader = peer.stub->PullChunks(&context, request);
    RT_RETURN_IF_ERROR(FromGrpc(TakePieces(*reader, context, digest, bytes)));
    RT_RETURN_IF_ERROR(VerifyDigest(digest, bytes));
    return bytes;
  }
  void Skip(size_t number, const absl::Status& why) {
    size_t expected = number;
    if (!current_.compare_exchange_strong(expected, number + 1)) return;
    if (!absl::IsNotFound(why)) lack_it_ = false;
    const uint64_t node = peers_[number].node;
    RT_LOG(kInfo) << "node " << node << " does not serve " << manifest_ << " (any more): "
                  << EscapeControl(MessageOf(why));
    if (!absl::IsResourceExhausted(why)) owner_.Failed(node);
  }

  PeerFinder& owner_;
  const std::string manifest_;
  std::vector<Peer> peers_;
  std::atomic<size_t> current_ = 0;
  std::atomic<bool> lack_it_ = true;  // All that were asked.
};

PeerFinder::PeerFinder(std::shared_ptr<grpc::Channel> head, Credentials credentials,
                       std::string cluster_id)
    : stub_(v1::WorkerService::NewStub(head)),
      credentials_(std::move(credentials)),
      cluster_id_(std::move(cluster_id)) {}

PeerFinder::~PeerFinder() { Stop(); }

void PeerFinder::Start(LocalTrees& trees, std::string address,
                       std::function<uint64_t()> head_epoch) {
  trees_ = &trees;
  head_epoch_ = std::move(head_epoch);
  address_ = std::move(address);
  thread_ = std::thread([this] { Run(); });
}

void PeerFinder::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PeerFinder::Changed() {
  std::lock_guard lock(mutex_);
  changed_ = true;
  woken_.notify_all();
}

void PeerFinder::Failed(uint64_t node) {
  std::lock_guard lock(mutex_);
  failed_.insert(node);
  changed_ = true;
  woken_.notify_all();
}

std::shared_ptr<grpc::Channel> PeerFinder::ChannelTo(const v1::Source& peer) const {
  const std::string name = NodeName(cluster_id_, std::to_string(peer.node()));
  return MakeNamedChannel(peer.address(), credentials_, name, true);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> PeerFinder::ChannelTo(uint64_t node) const {
  grpc::ClientContext context;
  context.set_deadline(In(kFindDeadline));
  v1::FindPeerRequest request;
  request.set_node(node);
  v1::FindPeerReply found;
  RT_RETURN_IF_ERROR(FromGrpc(stub_->FindPeer(&context, request, &found)));
  return ChannelTo(found.peer());
}

absl::StatusOr<v1::FindSourcesReply> PeerFinder::Ask(v1::FindSourcesRequest request) {
  grpc::ClientContext context;
  context.set_deadline(In(kFindDeadline));
  request.set_address(address_);
  v1::FindSourcesReply reply;
  const grpc::Status status = stub_->FindSources(&context, request, &reply);
  return status.ok() ? absl::StatusOr<v1::FindSourcesReply>(reply) : FromGrpc(status);
}

std::unique_ptr<BlobSource> PeerFinder::Find(const std::string& manifest) {
  v1::FindSourcesRequest request;
  request.set_manifest(manifest);
  auto found = Ask(std::move(request));
  if (!found.ok() || found->sources_size() == 0) return nullptr;  // The store has it, too.
  return std::make_unique<Peers>(*this, manifest, *found);
}

absl::StatusOr<ReplicaSource> PeerFinder::FindReplicas(const std::string& manifest,
                                                       const Fence& fence) {
  v1::FindSourcesRequest request;
  request.set_manifest(manifest);
  ToWire(fence, request.mutable_fence());
  RT_ASSIGN_OR_RETURN(const v1::FindSourcesReply found, Ask(std::move(request)));
  if (found.lost()) return absl::DataLossError("no node that is left holds it");
  return ReplicaSource{std::make_unique<Peers>(*this, manifest, found), found.all()};
}

std::unique_ptr<BlobSource> PeerFinder::At(const std::string& manifest, uint64_t node,
                                           const std::string& address) {
  v1::FindSourcesReply one;
  one.add_sources()->set_node(node);
  one.mutable_sources(0)->set_address(address);
  return std::make_unique<Peers>(*this, manifest, one);
}

// Whom the head names. While it cannot be heard, and the way to it may be what is slow, whoever
// held the last one: the commit says where this one is.
absl::StatusOr<v1::Source> PeerFinder::FindHolder() {
  v1::Source last;
  {
    std::lock_guard lock(mutex_);
    last = last_holder_;
  }
  grpc::ClientContext context;
  context.set_deadline(In(last.node() == 0 ? kFindDeadline : kAskFirst));
  v1::FindHolderRequest request;
  request.set_address(address_);
  v1::FindHolderReply found;
  const absl::Status asked = FromGrpc(stub_->FindHolder(&context, request, &found));
  if (!asked.ok() && (last.node() == 0 || !IsTransient(asked))) return asked;
  const v1::Source& holder = asked.ok() ? found.holder() : last;
  if (holder.node() == 0) return absl::UnavailableError("no other node can take a replica");
  return holder;
}

absl::StatusOr<uint64_t> PeerFinder::Replicate(const std::string& manifest, const Fence& fence,
                                               uint64_t row) {
  if (address_.empty()) return absl::UnavailableError("this node serves no others");
  RT_ASSIGN_OR_RETURN(const v1::Source holder, FindHolder());
  v1::HoldTreeRequest request;
  request.set_manifest(manifest);
  request.set_fence(rt::ToString(fence));
  request.set_address(address_);
  request.set_row(row);
  const absl::Status asked = RequestReplica(holder, request);
  {
    std::lock_guard lock(mutex_);
    last_holder_ = asked.ok() ? holder : v1::Source();
  }
  RT_RETURN_IF_ERROR(asked);
  return holder.node();
}

absl::Status PeerFinder::RequestReplica(const v1::Source& holder,
                                        const v1::HoldTreeRequest& request) const {
  auto channel = ChannelTo(holder);
  if (!IsConnected(*channel))
    return absl::UnavailableError("no connection to the node for the replica");
  grpc::ClientContext context;
  context.set_deadline(In(kHoldWithin));
  v1::HoldTreeReply reply;
  return FromGrpc(v1::PeerService::NewStub(channel)->HoldTree(&context, request, &reply));
}

void PeerFinder::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // Many changes come together.
    if (changed_) woken_.wait_for(lock, kSayAfter, [this] { return stopping_; });
    changed_ = false;
    const std::set<uint64_t> failed = std::exchange(failed_, {});
    lock.unlock();
    Say(failed);
    lock.lock();
    const uint64_t epoch = head_epoch_();
    const auto until = std::chrono::steady_clock::now() + kSayEvery;
    const auto is_due = [&] { return stopping_ || changed_ || head_epoch_() != epoch; };
    while (std::chrono::steady_clock::now() < until && !woken_.wait_for(lock, kLookEvery, is_due)) {
    }
  }
}

// What is not heard is said again with the next change, or in 30 s; who failed, if he does again.
void PeerFinder::Say(const std::set<uint64_t>& failed) {
  grpc::ClientContext context;
  context.set_deadline(In(kSayDeadline));
  v1::HoldTreesRequest request;
  request.set_address(address_);
  auto put = [](const std::vector<std::string>& from, auto* to) {
    const size_t count = std::min(from.size(), limits::kAnnouncedTreesPerNode);
    to->Assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
  };
  put(trees_->Complete(), request.mutable_whole());
  put(trees_->Arriving(), request.mutable_fetching());
  for (uint64_t node : failed) request.add_failed(node);
  v1::Empty reply;
  const grpc::Status status = stub_->HoldTrees(&context, request, &reply);
  if (!status.ok() && status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    RT_LOG(kWarning) << "the head does not hear what is kept here: "
                    << EscapeControl(status.error_message());
  }
}

}  // namespace rt::worker
