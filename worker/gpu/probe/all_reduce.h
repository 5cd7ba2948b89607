// The all-reduce of rt-probe: over the gpus of this process, or over the processes of a gang.
#pragma once

#include <cstdint>
#include <string>

#include "worker/gpu/probe/nccl.h"
#include "worker/gpu/probe/report.h"

namespace rt::probe {

// A gang's rank, as torchrun's variables (and rt's) say: RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT.
struct GangRank {
  int rank = 0;
  int ranks = 1;  // 1: there is no gang.
  std::string address;
  int port = 0;
  static GangRank FromEnvironment();
};

// All gpus of this process, one rank each.
void ReduceHere(int devices, AllReduceReport& report);
// Two gpus of this process, in a communicator of their own.
void ReducePair(int gpu, int other, AllReduceReport& report);
// The first gpu of each of the gang's processes. Rank 0 hands out NCCL's id over TCP.
void ReduceInGang(const GangRank& gang, AllReduceReport& report);

// Makes the id of a new communicator, unless `id` is null. The text says why this process cannot
// reduce with others; empty: it can. `has_nccl`: NCCL itself was found.
std::string PrepareToReduce(NcclId* id, bool& has_nccl);
// All gpus of this process, as the ranks from `first` on of a communicator of `ranks`. Sizes beyond
// `bytes_max` are left out.
void ReduceWithOthers(const NcclId& id, int devices, int first, int ranks, AllReduceReport& report,
                      uint64_t bytes_max = UINT64_MAX);

}  // namespace rt::probe
