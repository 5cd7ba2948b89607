// How the rt-probes of a gang over nodes meet before their all-reduce. There is one process on each
// node, and the first node's gives NCCL's id and a range of ranks to the others, over TCP. A node
// whose own tests have failed comes as well, so that nobody waits for it. No CUDA here.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "worker/core/node_state.h"

namespace rt::probe {

using worker::NodeState;

struct NodeOfGang {
  int node = 0;  // From 0, in the order of the ranks.
  int nodes = 1;
  std::string address = "127.0.0.1";  // Of node 0.
  int port = 0;

  // GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
  static NodeOfGang FromEnvironment();
};

struct Meeting {
  std::vector<NodeState> states;  // Of each node; empty: node 0 was not reached.
  int first = 0, ranks = 0;       // This node's first rank, and those of all nodes.
  std::string fault;              // Why there can be no all-reduce; empty: there can.
  std::string note;               // Why there is none, although nothing is wrong.
};

// `gpus`: those of this node, from which its ranks follow. `id`: node 0's is given to the others,
// so that all have the same bytes afterwards. Returns within about `most`.
Meeting Meet(const NodeOfGang& gang, NodeState state, int gpus, char* id, size_t id_bytes,
             std::chrono::milliseconds most);

// Later: each node brings bytes, as many as the others, and gets those of all, in the order of the
// nodes. Empty: a node did not come within `most`. `turn`: from 1, how often they have met so.
std::string Gather(const NodeOfGang& gang, unsigned turn, const std::string& own,
                   std::chrono::milliseconds most);

}  // namespace rt::probe
