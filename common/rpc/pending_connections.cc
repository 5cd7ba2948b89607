#include "common/rpc/pending_connections.h"

#include <algorithm>

#include "common/base/check.h"

namespace rt {

PendingConnections::PendingConnections(size_t pending_max) : pending_max_(pending_max) {}

void PendingConnections::Add(Number number, const Address& address) {
  address_of_[number] = address;
  by_address_[address].silent.insert(number);
  silent_.insert(number);
}

void PendingConnections::SetReady(Number number) {
  Neighbours& neighbours = by_address_.at(address_of_.at(number));
  if (silent_.erase(number) == 0) return;
  neighbours.silent.erase(number);
  neighbours.ready.insert(number);
  ready_.insert(number);
}

void PendingConnections::BeginHandshake(Number number) {
  Neighbours& neighbours = by_address_.at(address_of_.at(number));
  RT_CHECK(ready_.erase(number) == 1);
  neighbours.ready.erase(number);
  ++neighbours.handshakes;
  handshakes_.insert(number);
}

void PendingConnections::Remove(Number number) {
  const auto known = address_of_.find(number);
  if (known == address_of_.end()) return;
  const auto place = by_address_.find(known->second);
  Neighbours& neighbours = place->second;
  silent_.erase(number);
  neighbours.silent.erase(number);
  ready_.erase(number);
  neighbours.ready.erase(number);
  neighbours.handshakes -= handshakes_.erase(number);
  if (neighbours.size() == 0) by_address_.erase(place);
  address_of_.erase(known);
}

std::optional<PendingConnections::Number> PendingConnections::OldestOf(
    const std::set<Number>& silent, const std::set<Number>& ready) {
  if (!silent.empty()) return *silent.begin();
  if (!ready.empty()) return *ready.begin();
  return std::nullopt;
}

std::optional<PendingConnections::Number> PendingConnections::Oldest() const {
  return OldestOf(silent_, ready_);
}

PendingConnections::Slot PendingConnections::SlotFor(const Address& address, bool is_full) const {
  auto after_dropping = [](std::optional<Number> drop) { return Slot{drop.has_value(), drop}; };
  const size_t per_address_max = std::max<size_t>(1, pending_max_ * 3 / 4);
  const auto own = by_address_.find(address);
  if (own != by_address_.end() && own->second.size() >= per_address_max)
    return after_dropping(OldestOf(own->second.silent, own->second.ready));
  if (size() >= pending_max_ && !by_address_.empty()) {
    const auto most = std::max_element(
        by_address_.begin(), by_address_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    return after_dropping(OldestOf(most->second.silent, most->second.ready));
  }
  return is_full ? after_dropping(Oldest()) : Slot{};
}

std::optional<PendingConnections::Number> PendingConnections::NextHandshake() const {
  if (ready_.empty()) return std::nullopt;
  const Neighbours* fewest = nullptr;
  for (const auto& [address, neighbours] : by_address_) {
    if (neighbours.ready.empty()) continue;
    if (fewest == nullptr || neighbours.handshakes < fewest->handshakes) fewest = &neighbours;
  }
  return *fewest->ready.rbegin();
}

}  // namespace rt
