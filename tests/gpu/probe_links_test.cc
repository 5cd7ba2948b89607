// Which link of a gang over nodes is slow: from rates, and between nodes that are threads here.
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/gpu/kept_port.h"
#include "worker/gpu/probe/across.h"
#include "worker/gpu/probe/links.h"

namespace rt::probe {
namespace {

using Links = std::vector<LinkRate>;

// The rates of the links of so many nodes, 200 GB/s but for these.
Links RatesOf(int nodes, const std::map<std::pair<int, int>, double>& slow) {
  Links rates;
  for (int round = 0; round < RoundsOf(nodes); ++round)
    for (const auto& [node, other] : PairsOf(nodes, round)) {
      const auto found = slow.find({node, other});
      rates.push_back({node, other, found == slow.end() ? 200 : found->second});
    }
  return rates;
}

// What the nodes find, where these of their links are slow: (leader, the next node).
std::vector<AllReduceReport> FindAll(int nodes, const std::map<std::pair<int, int>, double>& slow,
                                     double all_gbps, double asked_gbps) {
  const KeptPort port;
  std::vector<AllReduceReport> found(static_cast<size_t>(nodes));
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::map<std::string, std::vector<PairOfNodes>> measured;  // By id.
  for (int node = 0; node < nodes; ++node)
    threads.emplace_back([&, node] {
      const NodeOfGang gang{.node = node, .nodes = nodes, .port = port.port()};
      NcclId id{};
      id.bytes[0] = static_cast<char>('a' + node);
      AllReduceReport& report = found[static_cast<size_t>(node)];
      report.ranks = 2 * nodes;
      report.sizes = {{1 << 20, 1, node == 0 ? 300 : all_gbps}};
      const auto measure = [&](const PairOfNodes& pair) {
        const std::lock_guard lock(mutex);
        measured[pair.id.bytes].push_back(pair);
        const int leader = pair.id.bytes[0] - 'a';
        const auto rate = slow.find({leader, (leader + 1) % nodes});
        return rate == slow.end() ? 200 : rate->second;
      };
      FindSlowPart(gang, id, 2, asked_gbps, std::chrono::seconds(20), measure, report);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, both] : measured) {
    REQUIRE(both.size() == 2);  // Both nodes of the pair, with ranks of their own.
    CHECK(both[0].ranks == 4);
    CHECK(std::set<int>{both[0].first, both[1].first} == std::set<int>{0, 2});
  }
  return found;
}

}  // namespace

TEST_CASE("links: each node measures with both neighbours, and with one at a time") {
  for (int nodes = 2; nodes < 12; ++nodes) {
    std::set<std::pair<int, int>> all;
    std::set<int> leaders;
    for (int round = 0; round < RoundsOf(nodes); ++round) {
      std::set<int> busy;
      for (const auto& [node, other] : PairsOf(nodes, round)) {
        CHECK(busy.insert(node).second);
        CHECK(busy.insert(other).second);
        CHECK(all.insert({node, other}).second);
        CHECK(leaders.insert(node).second);
      }
      CHECK(!busy.empty());
    }
    CHECK(all.size() == static_cast<size_t>(nodes == 2 ? 1 : nodes));
    CHECK(RoundsOf(nodes) <= 3);
  }
}

TEST_CASE("links: the slow link or node is named, and a slow network is not") {
  CHECK(FindSlowLinks(4, RatesOf(4, {}), 100).empty());
  CHECK(FindSlowLinks(2, RatesOf(2, {{{0, 1}, 3}}), 100) == Links{{0, 1, 3}});
  CHECK(FindSlowLinks(4, RatesOf(4, {{{2, 3}, 3}}), 100) == Links{{2, 3, 3}});
  // Both links of node 3: the node is to blame.
  CHECK(FindSlowLinks(5, RatesOf(5, {{{2, 3}, 3}, {{3, 4}, 5}}), 100) == Links{{3, 3, 5}});
  CHECK(FindSlowLinks(3, RatesOf(3, {{{0, 1}, 3}, {{2, 0}, 4}}), 100) == Links{{0, 0, 4}});
  // Two links without a common node, and beside them a node.
  CHECK(FindSlowLinks(8, RatesOf(8, {{{0, 1}, 3}, {{3, 4}, 2}, {{4, 5}, 2}}), 100) ==
        Links{{4, 4, 2}, {0, 1, 3}});
  CHECK(FindSlowLinks(4, RatesOf(4, {{{0, 1}, 3}, {{1, 2}, 3}, {{2, 3}, 3}, {{3, 0}, 3}}), 100)
            .empty());
}

TEST_CASE("links: the nodes find the slow link together, and say the same") {
  for (int nodes : {2, 3, 4, 5}) {
    const std::vector<AllReduceReport> found = FindAll(nodes, {{{0, 1}, 3}}, 5, 100);
    for (const AllReduceReport& one : found) {
      CHECK(one.slow_links == Links{{0, 1, 3}});
      CHECK(one.links.size() == static_cast<size_t>(nodes == 2 ? 1 : nodes));
      CHECK(one.fault ==
            "all-reduce at 5 GB/s of bus bandwidth, 100 are asked for; slow link between nodes 0 "
            "and 1 of the gang (3 GB/s)");
    }
  }
}

TEST_CASE(
    "links: nothing is measured between nodes that are fast enough, or of which one is sick") {
  for (const AllReduceReport& one : FindAll(3, {{{0, 1}, 3}}, 150, 100)) {
    CHECK(one.fault.empty());
    CHECK(one.links.empty());
  }
  const KeptPort port;
  std::vector<AllReduceReport> found(2);
  std::vector<std::thread> threads;
  for (int node = 0; node < 2; ++node)
    threads.emplace_back([&, node] {
      found[static_cast<size_t>(node)].errors = node == 1 ? 7 : 0;
      FindSlowPart(
          {.node = node, .nodes = 2, .port = port.port()}, {}, 1, 100, std::chrono::seconds(20),
          [](const PairOfNodes&) { return 1.0; }, found[static_cast<size_t>(node)]);
    });
  for (std::thread& thread : threads) thread.join();
  for (const AllReduceReport& one : found) CHECK(one.links.empty());
}

TEST_CASE("links: where a node does not come to tell, the others say what they measured") {
  const KeptPort port;
  AllReduceReport alone;
  alone.sizes = {{1 << 20, 1, 5}};
  FindSlowPart(
      {.node = 0, .nodes = 2, .port = port.port()}, {}, 1, 100, std::chrono::milliseconds(200),
      [](const PairOfNodes&) { return 1.0; }, alone);
  CHECK(alone.links.empty());
  CHECK(alone.fault.empty());  // Judge says that it is too slow.
}

}  // namespace rt::probe
