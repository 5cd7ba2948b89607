// Who belongs to the cluster, as far as it is durable.
#include <atomic>

#include "common/base/status.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

TEST_CASE("members: a node is a member from the answer to its join until it is removed") {
  Harness harness;
  const Members& members = harness.loop->members();
  CHECK(members.Of(NodeId{1}) == Members::Standing::kUnknown);
  CHECK(absl::IsUnavailable(members.Check(NodeId{1})));
  REQUIRE(harness.Join() == NodeId{1});
  CHECK(members.Check(NodeId{1}).ok());
  auto removed = harness.Post(input::RemoveNode{NodeId{1}, "test"});
  REQUIRE(Wait(removed).status.ok());
  CHECK(members.Of(NodeId{1}) == Members::Standing::kGone);
  const absl::Status refused = members.Check(NodeId{1});
  CHECK(absl::IsPermissionDenied(refused));
  CHECK(MessageOf(refused) == "node 1 has left the cluster: its certificate gives no rights");
}

TEST_CASE("members: what is not durable yet changes nothing") {
  Harness harness;
  REQUIRE(harness.Join() == NodeId{1});
  harness.journal.Hold(true);
  auto removed = harness.Post(input::RemoveNode{NodeId{1}, "test"});
  std::atomic<bool> is_decided = false;
  harness.loop->Query([&](const Core& core) {
    is_decided = core.world.state.nodes.at(NodeId{1}).gone;
  }, [](const absl::Status&) {});
  WaitFor([&] { return is_decided.load(); });
  CHECK(harness.loop->members().Check(NodeId{1}).ok());
  harness.journal.Hold(false);
  REQUIRE(Wait(removed).status.ok());
  CHECK(absl::IsPermissionDenied(harness.loop->members().Check(NodeId{1})));
}

TEST_CASE("members: a head that starts knows them from its journal") {
  Harness harness;
  REQUIRE(harness.Join() == NodeId{1});
  auto removed = harness.Post(input::RemoveNode{NodeId{1}, "test"});
  REQUIRE(Wait(removed).status.ok());
  auto created = harness.Post(input::CreateToken{"tok2", "worker", 60'000, ""});
  REQUIRE(Wait(created).status.ok());
  auto used = harness.Post(input::UseToken{"tok2", "n2"});
  REQUIRE(Wait(used).status.ok());
  harness.loop.reset();
  harness.Start();
  CHECK(harness.loop->members().Of(NodeId{1}) == Members::Standing::kGone);
  CHECK(harness.loop->members().Check(NodeId{2}).ok());
}
