// What a join token is exchanged for, and when it is spent.
#include "common/rpc/identity.h"
#include "head/service/tokens.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

struct Office : Harness {
  Settings settings{"c1", CreateCa("c1").value(), ResultRoots({.results_root = "/results"})};
  Io io = [](std::function<void()> job) { job(); };

  std::string TokenFor(const std::string& role, const std::string& name = "") {
    const std::string id = "token-" + role + name;
    auto created = Post(input::CreateToken{id, role, 60'000, "", name});
    REQUIRE(Wait(created).status.ok());
    return id;
  }
  absl::StatusOr<Joined> Redeem(const std::string& token, const std::string& csr,
                                const std::string& name = "") {
    auto joined = std::make_shared<std::promise<absl::StatusOr<Joined>>>();
    auto result = joined->get_future();
    RedeemToken(*loop, io, settings, {token, csr, name},
                [joined](absl::StatusOr<Joined> one) { joined->set_value(std::move(one)); });
    return Wait(result);
  }
  size_t CountNodes() {
    size_t nodes = 0;
    Read([&](const Core& core) { nodes = core.world.state.nodes.size(); });
    return nodes;
  }
};

}  // namespace

TEST_CASE("join: a malformed request spends no token and leaves no node behind") {
  Office office;
  const std::string token = office.TokenFor("worker");
  const std::string good = CreateCsr(CreateKey().value()).value();
  std::string broken = good;
  broken[broken.size() / 2] = broken[broken.size() / 2] == 'A' ? 'B' : 'A';
  for (const std::string& csr : {std::string(), std::string("no request"), broken}) {
    CHECK(absl::IsInvalidArgument(office.Redeem(token, csr, "w1").status()));
    CHECK(office.CountNodes() == 0);
  }
  CHECK(absl::IsInvalidArgument(office.Redeem(token, good, "a/b").status()));
  const auto joined = office.Redeem(token, good, "w1");
  REQUIRE(joined.ok());
  CHECK(joined->node == NodeId{1});
  CHECK(office.CountNodes() == 1);
  CHECK(absl::IsPermissionDenied(office.Redeem(token, good, "w1").status()));
}

TEST_CASE("join: a node's name that reads as another node's id is refused, and the token stays") {
  Office office;
  const std::string token = office.TokenFor("worker");
  const std::string csr = CreateCsr(CreateKey().value()).value();
  for (const char* name : {"1", "2-3", "all", "-x", ".", ".."}) {
    INFO(name);
    CHECK(absl::IsInvalidArgument(office.Redeem(token, csr, name).status()));
  }
  CHECK(office.CountNodes() == 0);
  CHECK(office.Redeem(token, csr, "n1").ok());
  // The token of an earlier release was for such a name.
  const std::string bound = office.TokenFor("worker", "7");
  CHECK(office.Redeem(bound, csr, "7").ok());
}

TEST_CASE("join: the certificate has the role and the name of the token, whatever is asked for") {
  Office office;
  const std::string token = office.TokenFor("user", "alice");
  const std::string csr = CreateCsr(CreateKey().value()).value();
  CHECK(absl::IsPermissionDenied(office.Redeem(token, csr, "admin").status()));
  const auto joined = office.Redeem(token, csr, "alice");
  REQUIRE(joined.ok());
  const auto who = IdentityOf(joined->certificate_pem);
  REQUIRE(who.ok());
  CHECK((who->kind == "user" && who->name == "alice" && who->role == "user"));
  CHECK(absl::IsPermissionDenied(office.Redeem(token, csr, "alice").status()));
}

TEST_CASE("tokens: a name that no certificate can have, or that reads as an id, makes no token") {
  Office office;
  const auto make = [&](const std::string& role, const std::string& name) {
    absl::StatusOr<NewToken> made = absl::UnknownError("no answer");
    CreateToken(*office.loop, office.io, office.settings, {.role = role, .name = name},
                [&made](absl::StatusOr<NewToken> token) { made = std::move(token); });
    return made.status();
  };
  for (const std::string name : {"a/b", "a b", "al\u00efce", "-x", "."})
    CHECK(absl::IsInvalidArgument(make("user", name)));
  for (const std::string name : {"1", "2-3", "last", "-x"})
    CHECK(absl::IsInvalidArgument(make("worker", name)));
}
