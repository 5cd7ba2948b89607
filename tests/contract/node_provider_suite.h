// The contract of common/provider/node_provider.h, run by every implementation: each of these takes
// a fresh provider with a pool "cpu" of at most four machines, and no machines.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/provider/node_provider.h"

namespace rt::contract {

inline CreateCall Wish(const std::vector<uint64_t>& numbers) {
  CreateCall call{.pool = "cpu", .each = {.cpu = kUnit}};
  for (uint64_t number : numbers)
    call.machines.push_back({number, "worker-" + std::to_string(number)});
  return call;
}
inline std::vector<std::string> IdsOf(const std::vector<MadeMachine>& machines) {
  std::vector<std::string> ids;
  for (const MadeMachine& machine : machines) ids.push_back(machine.id);
  return ids;
}

// `settle` lets what a List may not show yet come to pass.
inline void CreatedMachinesAreListed(NodeProvider& provider, const std::function<void()>& settle) {
  CHECK(provider.List()->empty());
  const auto made = provider.Create(Wish({1, 2}));
  REQUIRE(made.ok());
  REQUIRE(made->size() == 2);
  CHECK((*made)[0].number == 1);
  CHECK((*made)[0].pool == "cpu");
  CHECK(!(*made)[0].id.empty());
  CHECK((*made)[0].id != (*made)[1].id);
  settle();
  CHECK(*provider.List() == *made);
}

inline void ARepeatedCreateMakesNothing(NodeProvider& provider,
                                        const std::function<void()>& settle) {
  const auto first = provider.Create(Wish({1, 2}));
  REQUIRE(first.ok());
  const auto again = provider.Create(Wish({1, 2}));
  REQUIRE(again.ok());
  CHECK(*again == *first);
  settle();
  CHECK(provider.List()->size() == 2);
}

inline void TerminateRemovesAndMayBeRepeated(NodeProvider& provider,
                                             const std::function<void()>& settle) {
  const auto made = provider.Create(Wish({1, 2, 3}));
  REQUIRE(made.ok());
  CHECK(provider.Terminate({(*made)[0].id, (*made)[2].id}).ok());
  CHECK(provider.Terminate({(*made)[0].id}).ok());
  CHECK(provider.Terminate({}).ok());
  settle();
  const auto left = provider.List();
  REQUIRE(left->size() == 1);
  CHECK(left->front().number == 2);
}

inline void MoreThanThereIsCapacityForIsCutOff(NodeProvider& provider,
                                               const std::function<void()>& settle) {
  const auto made = provider.Create(Wish({1, 2, 3, 4, 5, 6}));
  REQUIRE(made.ok());
  CHECK(made->size() == 4);
  const auto none = provider.Create(Wish({7}));
  CHECK(ProviderErrorOf(none.status()) == ProviderError::kCapacity);
  settle();
  CHECK(provider.List()->size() == 4);
  REQUIRE(provider.Terminate({made->front().id}).ok());
  settle();
  CHECK(provider.Create(Wish({8}))->size() == 1);
}

// `foreign`: an id that exists and does not carry the tag of this cluster.
inline void WhatIsNotOursIsNotTouched(NodeProvider& provider, const std::string& foreign,
                                      const std::function<bool()>& is_there) {
  const auto made = provider.Create(Wish({1}));
  REQUIRE(made.ok());
  REQUIRE(is_there());
  const absl::Status refused = provider.Terminate({made->front().id, foreign});
  CHECK(ProviderErrorOf(refused) == ProviderError::kNotOurs);
  CHECK(is_there());
  CHECK(provider.Create(Wish({1}))->front().id == made->front().id);
  CHECK(provider.Terminate({made->front().id}).ok());
}

inline void EndAllLeavesNothing(NodeProvider& provider, const std::function<void()>& settle) {
  REQUIRE(provider.Create(Wish({1, 2})).ok());
  provider.EndAll();
  settle();
  CHECK(provider.List()->empty());
}

}  // namespace rt::contract
