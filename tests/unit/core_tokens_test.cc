// A join token binds a role and a name: what a Join gets, and what is refused at no cost.
#include "tests/unit/core_story.h"

namespace rt {
namespace {

struct Office : Story {
  void Create(const std::string& id, const std::string& role, const std::string& name = "") {
    REQUIRE(Do(input::CreateToken{id, role, 1'000, "", name}).verdict.ok());
  }
  // As a release before names were bound has journalled it.
  void CreateOld(const std::string& id, const std::string& role) {
    Take({core.world.state.seq + 1, now,
          event::TokenCreated{.token = id, .role = role, .expires_at = now + 1'000}});
  }
  bool IsOpen(const std::string& id) const { return core.world.state.tokens.contains(id); }
  std::string BoundName(const std::string& id) const {
    return core.world.state.tokens.at(id).bound_name();
  }
  std::string NodeName(NodeId id) const { return core.world.state.nodes.at(id).name; }
};

TEST_CASE("tokens: a Join that asks for another name is refused, and the token is not spent") {
  Office office;
  office.Create("t1", "user", "alice");
  const Outcome refused = office.Do(input::UseToken{"t1", "admin"});
  CHECK(absl::IsPermissionDenied(refused.verdict));
  CHECK(MessageOf(refused.verdict) ==
        "this token is for the user 'alice': nobody joins as 'admin' with it");
  CHECK(refused.records.empty());
  CHECK(office.BoundName("t1") == "alice");
  CHECK(office.Do(input::UseToken{"t1", "alice"}).verdict.ok());
  CHECK(!office.IsOpen("t1"));
}

TEST_CASE("tokens: a person's token without a name is bound to a name of its own") {
  Office office;
  office.Create("t1", "viewer");
  office.CreateOld("t2", "user");
  for (const std::string id : {"t1", "t2"}) {
    CHECK(office.BoundName(id) == "user-" + id);
    CHECK(absl::IsPermissionDenied(office.Do(input::UseToken{id, "admin"}).verdict));
    CHECK(office.IsOpen(id));
    CHECK(office.Do(input::UseToken{id, ""}).verdict.ok());
  }
}

TEST_CASE("tokens: a worker's token without a name leaves the name to the node") {
  Office office;
  office.Create("t1", "worker");
  office.CreateOld("t2", "worker");
  CHECK(office.NodeName(office.Do(input::UseToken{"t1", "w1"}).answer.node) == "w1");
  const NodeId second = office.Do(input::UseToken{"t2", "w1"}).answer.node;
  CHECK(office.NodeName(second) == "w1-" + std::to_string(second.value));
}

TEST_CASE("tokens: a node whose token names it gets that name, or waits until it is free") {
  Office office;
  office.Create("t1", "worker", "n1");  // The story's own node is called so.
  const Outcome taken = office.Do(input::UseToken{"t1", ""});
  CHECK(absl::IsFailedPrecondition(taken.verdict));
  CHECK(HintOf(taken.verdict).find("rt node forget n1") != std::string::npos);
  CHECK(office.IsOpen("t1"));
  REQUIRE(office.Do(input::RemoveNode{office.node, "test"}).verdict.ok());
  CHECK(office.NodeName(office.Do(input::UseToken{"t1", ""}).answer.node) == "n1");
}

TEST_CASE("tokens: a refusal says what became of the token, and what to do") {
  Office office;
  office.Create("t1", "user", "alice");
  office.Create("t2", "user", "alice");
  REQUIRE(office.Do(input::RevokeToken{"t2"}).verdict.ok());
  const absl::Status revoked = office.Do(input::UseToken{"t2", ""}).verdict;
  CHECK(MessageOf(revoked) == "this token was used, revoked, or has expired");
  office.now += 1'001;
  const absl::Status expired = office.Do(input::UseToken{"t1", ""}).verdict;
  CHECK(MessageOf(expired) == "this token has expired");
  CHECK(HintOf(expired) == "ask an admin for another: rt token create --role user");
}

TEST_CASE("tokens: the list shows names") {
  Office office;
  office.Create("t1", "user", "alice");
  office.Create("t2", "worker");
  const Json list = TokenListView(office.core, HeadFacts{.now = office.now});
  REQUIRE(list.Find("items")->array().size() == 2);
  CHECK(list.Find("items")->array()[0].GetString("name") == "alice");
  CHECK(list.Find("items")->array()[1].Find("name")->is_null());
}

}  // namespace
}  // namespace rt
