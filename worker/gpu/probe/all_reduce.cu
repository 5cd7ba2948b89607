#include <arpa/inet.h>
#include <cuda_runtime.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/gpu/probe/all_reduce.h"
#include "worker/gpu/probe/nccl.h"

namespace rt::probe {
namespace {

constexpr uint64_t kSizes[] = {1u << 20, 16u << 20, 256u << 20};
constexpr int kRounds = 5;
constexpr auto kMeetMax = std::chrono::seconds(60);

__global__ void FillWith(float* values, size_t count, float value) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x)
    values[i] = value;
}

__global__ void CountOthers(const float* values, size_t count, float value,
                            unsigned long long* others) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x)
    if (values[i] != value) atomicAdd(others, 1ull);
}

std::string Cuda(const char* what, cudaError_t code) {
  return code == cudaSuccess ? "" : std::string(what) + ": " + cudaGetErrorString(code);
}

// What one rank does; rank r brings r + 1 in every element. Its times are those of the slowest,
// because every round ends with all of them.
std::string RunRank(const Nccl& nccl, const NcclId& id, int device, int rank, int ranks,
                    AllReduceReport& report, uint64_t bytes_max = UINT64_MAX) {
  std::string why = Cuda("choose the gpu", cudaSetDevice(device));
  NcclComm comm = nullptr;
  auto asked = [&](const char* what, int code) {
    if (why.empty() && code != 0) why = std::string(what) + ": " + nccl.error(code);
  };
  if (why.empty()) asked("join the communicator", nccl.init_rank(&comm, ranks, id, rank));
  float* values = nullptr;
  unsigned long long* others = nullptr;
  if (why.empty()) why = Cuda("take memory", cudaMalloc(&values, kSizes[2]));
  if (why.empty()) why = Cuda("take memory", cudaMalloc(&others, sizeof *others));
  if (why.empty()) why = Cuda("clear memory", cudaMemset(others, 0, sizeof *others));
  for (const uint64_t bytes : kSizes) {
    if (bytes > bytes_max) break;
    const size_t count = bytes / sizeof(float);
    double best = 0;
    for (int round = 0; why.empty() && round < kRounds; ++round) {
      FillWith<<<256, 256>>>(values, count, static_cast<float>(rank + 1));
      cudaDeviceSynchronize();
      const auto began = std::chrono::steady_clock::now();
      asked("all-reduce",
            nccl.all_reduce(values, values, count, kNcclFloat, kNcclSum, comm, nullptr));
      if (why.empty()) why = Cuda("all-reduce", cudaDeviceSynchronize());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      if (best == 0 || took.count() < best) best = took.count();
      CountOthers<<<256, 256>>>(values, count, 0.5f * static_cast<float>(ranks * (ranks + 1)),
                                others);
    }
    if (!why.empty()) break;
    const double factor = 2.0 * (ranks - 1) / ranks;
    report.sizes.push_back({bytes, best, 1e-9 * factor * static_cast<double>(bytes) / best});
  }
  unsigned long long wrong = 0;
  if (why.empty())
    why = Cuda("read the sums", cudaMemcpy(&wrong, others, sizeof wrong, cudaMemcpyDeviceToHost));
  report.errors = wrong;
  cudaFree(values);
  cudaFree(others);
  if (comm != nullptr) nccl.destroy(comm);
  return why;
}

// One thread for each of these gpus, whose ranks are those from `first` on.
void RunRanks(const Nccl& nccl, const NcclId& id, const std::vector<int>& devices, int first,
              int ranks, AllReduceReport& report, uint64_t bytes_max = UINT64_MAX) {
  std::vector<AllReduceReport> parts(devices.size());
  std::vector<std::string> faults(devices.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < devices.size(); ++i)
    threads.emplace_back([&, i] {
      faults[i] = RunRank(nccl, id, devices[i], first + static_cast<int>(i), ranks, parts[i],
                          bytes_max);
    });
  for (std::thread& thread : threads) thread.join();
  report.sizes = parts[0].sizes;
  for (size_t i = 0; i < parts.size(); ++i) {
    report.errors += parts[i].errors;
    if (report.fault.empty() && !faults[i].empty())
      report.fault = "gpu " + std::to_string(devices[i]) + ": " + faults[i];
  }
}

// All gpus of this process.
std::vector<int> AllOf(int devices) {
  std::vector<int> all;
  for (int i = 0; i < devices; ++i) all.push_back(i);
  return all;
}

bool SendWhole(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

// Rank 0: gives the id to each of the others.
std::string GiveId(const GangRank& gang, const NcclId& id) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const timeval wait{kMeetMax.count(), 0};
  ::setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_ANY);
  at.sin_port = htons(static_cast<uint16_t>(gang.port));
  bool ok = ::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
            ::listen(listener, gang.ranks) == 0;
  for (int i = 1; ok && i < gang.ranks; ++i) {
    const int peer = ::accept(listener, nullptr, nullptr);
    ok = peer >= 0 && SendWhole(peer, id.bytes, sizeof id.bytes);
    if (peer >= 0) ::close(peer);
  }
  const int error = errno;
  ::close(listener);
  return ok ? "" : std::string("give NCCL's id to the other ranks: ") + std::strerror(error);
}

std::string TakeId(const GangRank& gang, NcclId& id) {
  const auto end = std::chrono::steady_clock::now() + kMeetMax;
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  do {  // Rank 0 may not listen yet.
    if (::getaddrinfo(gang.address.c_str(), std::to_string(gang.port).c_str(), &hints, &found) == 0) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      size_t got = 0;
      if (::connect(fd, found->ai_addr, found->ai_addrlen) == 0)
        for (ssize_t more = 1; more > 0 && got < sizeof id.bytes;
             got += static_cast<size_t>(more > 0 ? more : 0))
          more = ::recv(fd, id.bytes + got, sizeof id.bytes - got, 0);
      ::close(fd);
      ::freeaddrinfo(found);
      if (got == sizeof id.bytes) return "";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < end);
  return "rank 0 did not give NCCL's id at " + gang.address + ":" + std::to_string(gang.port);
}

const char* Text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

GangRank GangRank::FromEnvironment() {
  GangRank gang;
  gang.rank = std::atoi(Text("RANK", "0"));
  gang.ranks = std::max(1, std::atoi(Text("WORLD_SIZE", "1")));
  gang.address = Text("MASTER_ADDR", "127.0.0.1");
  gang.port = std::atoi(Text("MASTER_PORT", "29500"));
  return gang;
}

void ReduceHere(int devices, AllReduceReport& report) {
  Nccl nccl;
  report.ranks = devices;
  if (std::string why = nccl.Open(); !why.empty()) {
    report.note = why;  // No fault of a gpu.
    return;
  }
  report.library = nccl.name();
  NcclId id{};
  if (const int code = nccl.unique_id(&id); code != 0) {
    report.fault = std::string("NCCL: ") + nccl.error(code);
    return;
  }
  RunRanks(nccl, id, AllOf(devices), 0, devices, report);
  if (devices == 1)
    report.note = "one gpu: the communicator has one rank, and bandwidth was not measured";
}

void ReducePair(int gpu, int other, AllReduceReport& report) {
  Nccl nccl;
  report.ranks = 2;
  if (report.fault = nccl.Open(); !report.fault.empty()) return;
  report.library = nccl.name();
  NcclId id{};
  if (const int code = nccl.unique_id(&id); code != 0) {
    report.fault = std::string("NCCL: ") + nccl.error(code);
    return;
  }
  RunRanks(nccl, id, {gpu, other}, 0, 2, report);
}

std::string PrepareToReduce(NcclId* id, bool& has_nccl) {
  Nccl nccl;
  std::string why = nccl.Open();
  has_nccl = why.empty();
  if (!has_nccl) return why;
  const int code = id == nullptr ? 0 : nccl.unique_id(id);
  return code == 0 ? "" : std::string("NCCL: ") + nccl.error(code);
}

void ReduceWithOthers(const NcclId& id, int devices, int first, int ranks,
                      AllReduceReport& report, uint64_t bytes_max) {
  Nccl nccl;
  report.ranks = ranks;
  if (report.fault = nccl.Open(); !report.fault.empty()) return;
  report.library = nccl.name();
  RunRanks(nccl, id, AllOf(devices), first, ranks, report, bytes_max);
}

void ReduceInGang(const GangRank& gang, AllReduceReport& report) {
  Nccl nccl;
  report.ranks = gang.ranks;
  report.fault = nccl.Open();  // The other ranks would wait for this one.
  if (!report.fault.empty()) return;
  report.library = nccl.name();
  NcclId id{};
  if (gang.rank == 0 && nccl.unique_id(&id) != 0) report.fault = "NCCL makes no id";
  if (report.fault.empty())
    report.fault = gang.rank == 0 ? GiveId(gang, id) : TakeId(gang, id);
  if (report.fault.empty()) report.fault = RunRank(nccl, id, 0, gang.rank, gang.ranks, report);
}

}  // namespace rt::probe
