// The connections of a port that have not shown who they are: which of them is dropped when there
// are too many, and whose handshake begins next. A pending connection waits silently, then is ready
// (its ClientHello has arrived), then in its handshake, then it leaves. Numbers grow, so the lowest
// is the oldest. Pure; no threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace rt {

class PendingConnections {
 public:
  using Number = uint64_t;
  using Address = std::string;  // What the bound per address counts by.

  explicit PendingConnections(size_t pending_max);

  void Add(Number number, const Address& address);
  void SetReady(Number number);
  void BeginHandshake(Number number);  // Of one that is ready.
  void Remove(Number number);          // Admitted, ended or dropped. Unknown numbers are ignored.

  // Whether one more of `address` fits, and which one has to be dropped first.
  struct Slot {
    bool fits = true;
    std::optional<Number> drop;
  };
  // `is_full`: the port has no capacity for one more connection, of whatever kind.
  Slot SlotFor(const Address& address, bool is_full) const;
  // The oldest that is silent, else the oldest that is ready: an honest client speaks at once.
  std::optional<Number> Oldest() const;
  // The newest one of the address with the fewest handshakes: a client that has waited for long has
  // probably given up.
  std::optional<Number> NextHandshake() const;

  bool has_ready() const { return !ready_.empty(); }
  const std::set<Number>& handshakes() const { return handshakes_; }
  size_t size() const { return address_of_.size(); }

 private:
  struct Neighbours {  // Of one address.
    std::set<Number> silent, ready;
    size_t handshakes = 0;
    size_t size() const { return silent.size() + ready.size() + handshakes; }
  };
  static std::optional<Number> OldestOf(const std::set<Number>& silent,
                                        const std::set<Number>& ready);

  const size_t pending_max_;
  std::map<Number, Address> address_of_;
  std::map<Address, Neighbours> by_address_;
  std::set<Number> silent_, ready_, handshakes_;
};

}  // namespace rt
