// The pure parts of a port: who is dropped, what is fruitless, when a port is called dead.
#include <catch2/catch.hpp>

#include "common/rpc/fruitless.h"
#include "common/rpc/pending_connections.h"
#include "common/rpc/self_probe.h"

using namespace rt;

namespace {

constexpr Millis kLook = 250;

// Looks `looks` times, `each` bytes more before each; true when it was called fruitless.
bool IsFruitless(FruitlessBytes& bytes, TcpFacts& facts, Millis& now, int looks, Bytes each,
                 size_t bodies = 0) {
  for (int i = 0; i < looks; ++i) {
    facts.taken += each;
    now += kLook;
    if (bytes.Look(now, facts, 1, [&] { return bodies; })) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("pending connections: the oldest silent one is dropped first, then the oldest ready") {
  PendingConnections pending(4);
  for (uint64_t number : {1, 2, 3}) pending.Add(number, "a");
  pending.SetReady(1);
  CHECK(pending.SlotFor("a", false).drop == 2);  // Three quarters are one address's share.
  CHECK(!pending.SlotFor("b", false).drop);
  CHECK(pending.SlotFor("b", true).drop == 2);  // The port is full.
  pending.SetReady(2);
  pending.SetReady(3);
  CHECK(pending.SlotFor("a", false).drop == 1);
  pending.Add(4, "b");
  CHECK(pending.SlotFor("c", false).drop == 1);  // The address that has most pays.
}

TEST_CASE("pending connections: handshakes are not interrupted for a new connection") {
  PendingConnections pending(2);
  pending.Add(1, "a");
  pending.SetReady(1);
  pending.BeginHandshake(1);
  CHECK(!pending.SlotFor("a", false).fits);
  CHECK(!pending.SlotFor("b", true).fits);
  pending.Remove(1);
  pending.Remove(1);
  CHECK(pending.size() == 0);
  CHECK(pending.SlotFor("a", false).fits);
}

TEST_CASE("pending connections: the next handshake is of the address that has the fewest") {
  PendingConnections pending(100);
  for (uint64_t number : {1, 2, 3, 4}) pending.Add(number, number == 2 ? "b" : "a");
  CHECK(!pending.NextHandshake());
  for (uint64_t number : {1, 2, 3}) pending.SetReady(number);
  CHECK(pending.NextHandshake() == 3);  // Equal: the first address, and its newest.
  pending.BeginHandshake(3);
  CHECK(pending.NextHandshake() == 2);
  pending.BeginHandshake(2);
  CHECK(pending.NextHandshake() == 1);
}

TEST_CASE("fruitless: what comes quickly without a message to come is cut off, a message is not") {
  FruitlessBytes bytes;
  TcpFacts facts;
  Millis now = 1'000;
  CHECK(!IsFruitless(bytes, facts, now, 2, 0));
  CHECK(!IsFruitless(bytes, facts, now, 3, 30 << 10));
  FruitlessBytes before = bytes;
  CHECK(!IsFruitless(bytes, facts, now, 12, 1 << 20, 1));
  CHECK(!IsFruitless(bytes, facts, now, 20, 1 << 20, 2));  // Two at once need twice as many.
  CHECK(IsFruitless(bytes, facts, now, 20, 1 << 20, 2));
  facts.taken = 90 << 10;
  CHECK(IsFruitless(before, facts, now, 1, 10 << 10));
}

TEST_CASE("fruitless: a client that pulls, or only pings, is left alone") {
  FruitlessBytes bytes;
  TcpFacts facts;
  Millis now = 1'000;
  for (int i = 0; i < 40'000; ++i) {
    facts.sent += 1 << 20;
    REQUIRE(!IsFruitless(bytes, facts, now, 1, 2 << 10));
  }
  for (int i = 0; i < 40'000; ++i) REQUIRE(!IsFruitless(bytes, facts, now, 1, 60));
}

TEST_CASE("fruitless: a few bytes are cut off after a minute, but not because we stood still") {
  FruitlessBytes bytes;
  TcpFacts facts;
  Millis now = 1'000;
  CHECK(!IsFruitless(bytes, facts, now, 2, 0));
  CHECK(!IsFruitless(bytes, facts, now, 1, 80 << 10));
  now += 3'600'000;
  CHECK(!IsFruitless(bytes, facts, now, 1, 0));
  const int minute = static_cast<int>(limits::kFruitlessMax / kLook);
  FruitlessBytes slow;
  TcpFacts seen;
  now = 1'000;
  CHECK(!IsFruitless(slow, seen, now, 1, 0));
  CHECK(!IsFruitless(slow, seen, now, 1, 90 << 10));
  CHECK(!IsFruitless(slow, seen, now, minute - 4, 64));
  CHECK(IsFruitless(slow, seen, now, 8, 64));
}

TEST_CASE("probe: three failures in a row are a dead port, a process that stood still is none") {
  constexpr Millis kTimeout = 10'000;
  ProbeCount count(3);
  CHECK(!count.Add(false, kTimeout, kTimeout));
  CHECK(!count.Add(false, kTimeout, kTimeout));
  CHECK(!count.Add(true, 5, kTimeout));
  CHECK(!count.Add(false, kTimeout, kTimeout));
  CHECK(!count.Add(false, kTimeout, kTimeout));
  CHECK(!count.Add(false, 3'600'000, kTimeout));  // The machine slept.
  CHECK(!count.Add(false, kTimeout, kTimeout));
  CHECK(!count.Add(false, 100, kTimeout));  // Refused at once.
  CHECK(count.Add(false, kTimeout, kTimeout));
}
