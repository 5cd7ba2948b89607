// What a worker may say of attempts, and of the trees that it has saved.
#include <catch2/catch.hpp>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/owner_policy.h"
#include "head/service/translate.h"

using namespace rt;

namespace {

const std::string kDigest = "b3:" + std::string(64, '0');

template <class Request>
Request OfTrial() {
  Request request;
  auto* owner = request.mutable_fence()->mutable_attempt()->mutable_owner();
  owner->set_kind(1);
  owner->set_group(1);
  request.set_manifest(kDigest);
  return request;
}

}  // namespace

TEST_CASE("fences: the kinds of owner are those of the table of policies") {
  v1::Fence fence;
  v1::Owner& owner = *fence.mutable_attempt()->mutable_owner();
  owner.set_group(1);
  const auto is_known = [&](uint32_t kind) {
    owner.set_kind(kind);
    const absl::StatusOr<Fence> read = FromWire(fence);
    if (!read.ok()) CHECK(MessageOf(read.status()) == "an owner is a trial, a job or an executor");
    else CHECK(static_cast<uint32_t>(read->attempt.owner.kind) == kind);
    return read.ok();
  };
  for (const uint32_t kind : {1u, 2u, 3u}) CHECK(is_known(kind));
  for (const uint32_t kind : {0u, 4u, 99u, 256u, 259u}) CHECK_FALSE(is_known(kind));
  static const OwnerPolicy kNext = {
      .kind = static_cast<Owner::Kind>(99),
      .runs = [](const State&, const Owner&) -> const Runs* { return nullptr; },
      .each = [](const State&, const std::function<void(const Owner&)>&) {},
      .reindex = [](World&) {},
  };
  AddOwnerPolicy(kNext);
  CHECK(is_known(99));
}

TEST_CASE("commits: a manifest that is no digest, or a size that no tree has, is refused") {
  auto request = OfTrial<v1::CommitCheckpointRequest>();
  request.set_bytes(5);
  request.set_held(true);
  request.add_peers(3);
  const auto commit = CommitFromWire(request, NodeId{2});
  INFO(commit.status().ToString());
  REQUIRE(commit.ok());
  CHECK((commit->manifest == kDigest && commit->bytes == 5));
  CHECK(commit->replicas == std::vector<NodeId>{NodeId{2}, NodeId{3}});
  for (const std::string& manifest :
       {std::string(), std::string("../../x"), std::string(100'000, 'x'), std::string("\0", 1)}) {
    auto other = request;
    other.set_manifest(manifest);
    const absl::Status refused = CommitFromWire(other, NodeId{2}).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(MessageOf(refused) == "the checkpoint's manifest is not a digest");
  }
  for (const Bytes bytes : {Bytes{-1}, INT64_MIN, INT64_MAX}) {
    auto other = request;
    other.set_bytes(bytes);
    CHECK(absl::IsInvalidArgument(CommitFromWire(other, NodeId{2}).status()));
  }
  for (uint64_t peer = 1; peer < 100; ++peer) request.add_peers(peer);
  CHECK(absl::IsInvalidArgument(CommitFromWire(request, NodeId{2}).status()));
}

TEST_CASE("outputs: more files than are kept, or sizes that no files have, are refused") {
  auto request = OfTrial<v1::KeepOutputsRequest>();
  request.set_files(limits::kOutputFilesMax);
  request.set_bytes(5);
  request.set_left_out_files(1'000'000);
  request.set_left_out_bytes(INT64_MAX);  // Of a sparse file.
  const auto outputs = OutputsFromWire(request);
  INFO(outputs.status().ToString());
  REQUIRE(outputs.ok());
  CHECK(outputs->left_out_bytes > 0);
  CHECK(outputs->left_out_bytes < INT64_MAX / 2);
  auto files = request, size = request, left_out = request, below = request;
  files.set_files(UINT64_MAX);
  size.set_bytes(INT64_MAX);
  left_out.set_left_out_files(UINT64_MAX);
  below.add_left_out()->set_bytes(-5);
  for (const auto& wrong : {files, size, left_out, below})
    CHECK(absl::IsInvalidArgument(OutputsFromWire(wrong).status()));
}
