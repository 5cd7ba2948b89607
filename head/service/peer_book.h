// Which workers have which trees of bytes, or are fetching them, and from which worker: a tree that
// many want at once leaves the head's store once, and spreads over workers that serve two others
// each. Workers announce their trees; the book is in memory only, and bounded. After a restart of
// the head it is empty, and fetches go to the store until the workers have announced their trees
// again. An entry may be out of date; the fetching worker falls back to the store. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/limits.h"
#include "common/base/time.h"

namespace rt {

class PeerBook {
 public:
  struct Source {
    NodeId node;
    std::string address;  // host:port
    friend bool operator==(const Source&, const Source&) = default;
  };
  struct Ask {
    NodeId asker;
    std::string address;  // Where it serves others; "": it does not.
    std::string manifest;
    std::vector<NodeId> replicas;  // Nodes that have it, whether they announced it or not.
  };
  // The asker begins to fetch. Returns the nodes of `alive` to ask, best first, two at most. `now`
  // counts as in Announce.
  std::vector<Source> Find(const Ask& ask, const std::set<NodeId>& alive, Millis now);
  // The node of `alive` that should make a replica of a tree that only the asker, at `address`,
  // has: on another machine, with few trees.
  std::optional<Source> FindHolder(NodeId asker, const std::string& address,
                                   const std::set<NodeId>& alive, Millis now);
  // Where the node serves, if it has said so and does.
  std::optional<Source> AddressOf(NodeId node);
  struct Announced {
    std::string address;
    std::vector<std::string> whole;
    std::vector<std::string> fetching;
    std::vector<NodeId> failed;  // They did not serve.
  };
  // All trees of the node; replaces its previous announcement.
  void Announce(NodeId node, const Announced& announced, Millis now);

 private:
  struct Copy {
    bool whole = false;
    uint64_t order = 0;  // Of who fetches: one that began later may wait for it, never the reverse.
    NodeId parent;       // Whom it fetches from; 0: the store.
  };
  struct Node {
    std::string address;
    Millis said_at = 0;
    std::set<std::string> manifests;
  };
  using Copies = std::map<NodeId, Copy>;
  bool MayServe(NodeId node) const;
  void Put(NodeId node, const std::string& manifest, const Copy& copy);
  void Remove(NodeId node, const std::string& manifest);
  void Forget(NodeId node);
  void ForgetSilent(Millis now);

  std::mutex mutex_;
  uint64_t next_order_ = 1;
  size_t count_ = 0;  // Copies.
  std::map<NodeId, Node> nodes_;
  std::map<std::string, Copies> copies_;  // By manifest.
};

}  // namespace rt
