// NCCL, opened at run time: rt-probe is built without it, and says so where it finds none. The few
// types and numbers are those of nccl.h, whose ABI they are.
#pragma once

#include <cstddef>
#include <string>

namespace rt::probe {

using NcclComm = void*;
struct NcclId {
  char bytes[128];
};
constexpr int kNcclSum = 0;
constexpr int kNcclFloat = 7;

struct Nccl {
  int (*version)(int*) = nullptr;
  const char* (*error)(int) = nullptr;
  int (*unique_id)(NcclId*) = nullptr;
  int (*init_rank)(NcclComm*, int ranks, NcclId, int rank) = nullptr;
  int (*destroy)(NcclComm) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, NcclComm, void* stream) = nullptr;

  // Looks in $RT_NCCL_ROOT/lib, where it was built with, on the loader's path, and beside PyTorch's
  // wheels of the python3 on the path. The text says why it was not found; empty: it was.
  std::string Open();
  std::string name() const;  // "NCCL 2.28.3".
};

}  // namespace rt::probe
