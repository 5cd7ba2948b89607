#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "worker/gpu/probe/device_tests.h"

namespace rt::probe {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 30;    // Memory is taken in pieces of this size.
constexpr uint64_t kLeft = uint64_t{512} << 20;   // So much is left to the driver and to NCCL.
constexpr uint64_t kCopied = uint64_t{2} << 30;   // By one copy; far beyond any cache.
constexpr uint64_t kHostBytes = uint64_t{256} << 20;
constexpr int kRounds = 8;                        // Of each measurement; the best counts.
constexpr int kThreads = 256;

std::string Why(const char* what, cudaError_t code) {
  return std::string(what) + ": " + cudaGetErrorString(code);
}
#define PROBE_TRY(what, call)                                     \
  if (const cudaError_t code = (call); code != cudaSuccess) return Why(what, code)

// A number that differs in many bits from that of the next word.
__device__ uint64_t PatternAt(uint64_t word, uint64_t flip) {
  uint64_t value = word * 0x9e3779b97f4a7c15ull;
  value ^= value >> 29;
  return value * 0xbf58476d1ce4e5b9ull ^ flip;
}

__global__ void WritePattern(uint64_t* words, uint64_t count, uint64_t first, uint64_t flip) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    words[i] = PatternAt(first + i, flip);
}

__global__ void CheckPattern(const uint64_t* words, uint64_t count, uint64_t first, uint64_t flip,
                             unsigned long long* errors) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  unsigned long long found = 0;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    found += words[i] != PatternAt(first + i, flip) ? 1 : 0;
  if (found != 0) atomicAdd(errors, found);
}

__global__ void CopyWords(const uint4* from, uint4* to, uint64_t count) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = from[i];
}

// Each warp multiplies 16 x 16 pieces of ones in registers and adds the products up: every element
// of each sum is 16 * rounds exactly, as long as that is below 2^24.
__global__ void MultiplyOnes(int rounds, unsigned long long* errors) {
  using namespace nvcuda;
  constexpr int kSums = 4;  // Independent of each other, so that the units never wait.
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[kSums];
  wmma::fill_fragment(a, __float2half(1.0f));
  wmma::fill_fragment(b, __float2half(1.0f));
  for (auto& sum : sums) wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < rounds; ++i)
    for (auto& sum : sums) wmma::mma_sync(sum, a, b, sum);
  unsigned long long found = 0;
  for (auto& sum : sums)
    for (int i = 0; i < sum.num_elements; ++i) found += sum.x[i] != 16.0f * rounds ? 1 : 0;
  if (found != 0) atomicAdd(errors, found);
}

// Device memory and events that go with the scope.
struct Pieces {
  std::vector<std::pair<void*, uint64_t>> all;
  ~Pieces() {
    for (auto& [at, bytes] : all) cudaFree(at);
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [at, size] : all) sum += size;
    return sum;
  }
};
struct Timer {
  cudaEvent_t began = nullptr, ended = nullptr;
  Timer() {
    cudaEventCreate(&began);
    cudaEventCreate(&ended);
  }
  ~Timer() {
    cudaEventDestroy(began);
    cudaEventDestroy(ended);
  }
  void Begin() { cudaEventRecord(began); }
  // Seconds; 0 when something failed.
  double End() {
    cudaEventRecord(ended);
    float milliseconds = 0;
    if (cudaEventSynchronize(ended) != cudaSuccess) return 0;
    if (cudaEventElapsedTime(&milliseconds, began, ended) != cudaSuccess) return 0;
    return milliseconds * 1e-3;
  }
};

int Blocks() {
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return std::max(1, processors) * 16;
}

double Rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string TakeMemory(uint64_t bytes_max, Pieces& pieces) {
  size_t free = 0, total = 0;
  PROBE_TRY("ask for the free memory", cudaMemGetInfo(&free, &total));
  uint64_t wanted = free > kLeft ? free - kLeft : 0;
  if (bytes_max != 0) wanted = std::min(wanted, bytes_max);
  while (wanted > 0) {
    const uint64_t bytes = std::min(wanted, kPiece);
    void* at = nullptr;
    if (cudaMalloc(&at, bytes) != cudaSuccess) {
      cudaGetLastError();  // Forgotten: there is less than was said.
      break;
    }
    pieces.all.emplace_back(at, bytes);
    wanted -= bytes;
  }
  return pieces.all.empty() ? "no memory is free" : "";
}

std::string CopyWithin(const Pieces& pieces, DeviceReport& report) {
  if (pieces.all.size() < 2) return "";
  const uint64_t bytes = std::min(pieces.all[0].second, pieces.all[1].second);
  Timer timer;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t copied = 0;
    timer.Begin();
    for (; copied < kCopied; copied += bytes) {
      CopyWords<<<Blocks(), kThreads>>>(static_cast<const uint4*>(pieces.all[0].first),
                                        static_cast<uint4*>(pieces.all[1].first),
                                        bytes / sizeof(uint4));
    }
    const double own = Rate(2e-9 * static_cast<double>(copied), timer.End());
    timer.Begin();
    cudaMemcpyAsync(pieces.all[1].first, pieces.all[0].first, bytes, cudaMemcpyDeviceToDevice);
    const double driver = Rate(2e-9 * static_cast<double>(bytes), timer.End());
    report.copy_gbps = std::max({report.copy_gbps, own, driver});
  }
  PROBE_TRY("copy within the memory", cudaGetLastError());
  return "";
}

}  // namespace

int CountDevices(std::string& fault) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) fault = Why("find gpus", code);
  return code == cudaSuccess ? count : 0;
}

std::string Use(int device) {
  PROBE_TRY("use the gpu", cudaSetDevice(device));
  return "";
}

std::string Describe(int device, DeviceReport& report) {
  cudaDeviceProp facts{};
  PROBE_TRY("describe the gpu", cudaGetDeviceProperties(&facts, device));
  const auto* bytes = reinterpret_cast<const unsigned char*>(facts.uuid.bytes);
  report.uuid = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%02x", bytes[i]);
    report.uuid += hex;
    if (i == 3 || i == 5 || i == 7 || i == 9) report.uuid += '-';
  }
  report.index = device;
  report.name = facts.name;
  report.memory_bytes = facts.totalGlobalMem;
  return "";
}

std::string TestMemory(uint64_t bytes_max, DeviceReport& report) {
  Pieces pieces;
  if (std::string why = TakeMemory(bytes_max, pieces); !why.empty()) return why;
  Pieces count;
  count.all.emplace_back(nullptr, sizeof(unsigned long long));
  PROBE_TRY("take memory", cudaMalloc(&count.all[0].first, count.all[0].second));
  auto* errors = static_cast<unsigned long long*>(count.all[0].first);
  PROBE_TRY("clear memory", cudaMemset(errors, 0, sizeof *errors));
  for (const uint64_t flip : {uint64_t{0}, ~uint64_t{0}}) {
    uint64_t first = 0;
    for (const auto& [at, bytes] : pieces.all) {
      const uint64_t words = bytes / sizeof(uint64_t);
      WritePattern<<<Blocks(), kThreads>>>(static_cast<uint64_t*>(at), words, first, flip);
      first += words;
    }
    first = 0;
    for (const auto& [at, bytes] : pieces.all) {
      const uint64_t words = bytes / sizeof(uint64_t);
      CheckPattern<<<Blocks(), kThreads>>>(static_cast<uint64_t*>(at), words, first, flip, errors);
      first += words;
    }
    PROBE_TRY("test the memory", cudaGetLastError());
  }
  unsigned long long found = 0;
  PROBE_TRY("test the memory", cudaMemcpy(&found, errors, sizeof found, cudaMemcpyDeviceToHost));
  report.memory_errors = found;
  report.tested_bytes = pieces.bytes();
  return CopyWithin(pieces, report);
}

std::string TestMatmul(DeviceReport& report) {
  constexpr int kWarpRounds = 4'096;
  constexpr double kFlop = 2.0 * 16 * 16 * 16 * 4;  // Of one round of one warp.
  Pieces count;
  count.all.emplace_back(nullptr, sizeof(unsigned long long));
  PROBE_TRY("take memory", cudaMalloc(&count.all[0].first, count.all[0].second));
  auto* errors = static_cast<unsigned long long*>(count.all[0].first);
  PROBE_TRY("clear memory", cudaMemset(errors, 0, sizeof *errors));
  const double warps = static_cast<double>(Blocks()) * (kThreads / 32);
  Timer timer;
  for (int round = 0; round < kRounds; ++round) {
    timer.Begin();
    MultiplyOnes<<<Blocks(), kThreads>>>(kWarpRounds, errors);
    const double rate = Rate(1e-12 * warps * kWarpRounds * kFlop, timer.End());
    report.matmul_tflops = std::max(report.matmul_tflops, rate);
  }
  PROBE_TRY("multiply", cudaGetLastError());
  unsigned long long found = 0;
  PROBE_TRY("multiply", cudaMemcpy(&found, errors, sizeof found, cudaMemcpyDeviceToHost));
  report.matmul_errors = found;
  return "";
}

std::string TestHostCopies(DeviceReport& report) {
  Pieces device;
  device.all.emplace_back(nullptr, kHostBytes);
  PROBE_TRY("take memory", cudaMalloc(&device.all[0].first, kHostBytes));
  void* host = nullptr;
  PROBE_TRY("take memory of the host", cudaMallocHost(&host, kHostBytes));
  Timer timer;
  for (int round = 0; round < kRounds; ++round) {
    timer.Begin();
    cudaMemcpyAsync(device.all[0].first, host, kHostBytes, cudaMemcpyHostToDevice);
    report.to_device_gbps =
        std::max(report.to_device_gbps, Rate(1e-9 * static_cast<double>(kHostBytes), timer.End()));
    timer.Begin();
    cudaMemcpyAsync(host, device.all[0].first, kHostBytes, cudaMemcpyDeviceToHost);
    report.to_host_gbps =
        std::max(report.to_host_gbps, Rate(1e-9 * static_cast<double>(kHostBytes), timer.End()));
  }
  const cudaError_t code = cudaGetLastError();
  cudaFreeHost(host);
  return code == cudaSuccess ? "" : Why("copy between host and gpu", code);
}

}  // namespace rt::probe
