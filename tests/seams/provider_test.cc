// A second provider: its own files, and one line in a registry.
#include <catch2/catch.hpp>

#include "common/provider/provider_registry.h"
#include "tests/contract/node_provider_suite.h"
#include "tests/seams/shelf.h"

namespace rt::seams {
namespace {

constexpr ProviderEntry kProviders[] = {
    {"shelf", ReadShelf},
};

std::unique_ptr<NodeProvider> StartShelf() {
  const auto config =
      Json::Parse(R"({"type": "shelf", "machines": ["a", "b", "c", "d"], "pool": "cpu"})");
  const auto setup = ReadProvider(*config, kProviders);
  REQUIRE(setup.ok());
  auto provider = (*setup)->Start({}, {.cluster_id = "c1"});
  REQUIRE(provider.ok());
  return *std::move(provider);
}

}  // namespace

TEST_CASE("a provider with one line in the registry keeps the contract") {
  const std::function<void()> at_once = [] {};
  contract::CreatedMachinesAreListed(*StartShelf(), at_once);
  contract::ARepeatedCreateMakesNothing(*StartShelf(), at_once);
  contract::TerminateRemovesAndMayBeRepeated(*StartShelf(), at_once);
  contract::MoreThanThereIsCapacityForIsCutOff(*StartShelf(), at_once);
  contract::EndAllLeavesNothing(*StartShelf(), at_once);
}

TEST_CASE("a provider's mistakes in the configuration are named") {
  const auto wrong = ReadProvider(Json::MakeObject({{"type", "shelf"}}), kProviders);
  CHECK(wrong.status().message() == "provider/machines must be a list of names");
  const auto unknown = ReadProvider(Json::MakeObject({{"type", "local"}}), kProviders);
  CHECK(unknown.status().message() == "this head knows the provider 'shelf', not 'local'");
}

}  // namespace rt::seams
