#include "worker/core/memory_error.h"

#include <algorithm>
#include <string>

#include "common/base/strings.h"

namespace rt::worker {
namespace {

constexpr std::string_view kClasses[] = {"OutOfMemoryError", "torch.OutOfMemoryError",
                                         "torch.cuda.OutOfMemoryError", "CUDAOutOfMemoryError"};
constexpr std::string_view kPhrases[] = {"CUDA out of memory",
                                         "CUDA_ERROR_OUT_OF_MEMORY",
                                         "cudaErrorMemoryAllocation",
                                         "CUBLAS_STATUS_ALLOC_FAILED",
                                         "CUDNN_STATUS_ALLOC_FAILED",
                                         "HIP out of memory",
                                         "CUDA error: out of memory",
                                         "cuda out of memory",
                                         "cudaMalloc failed: out of memory",
                                         "RESOURCE_EXHAUSTED: Out of memory"};

bool Says(std::string_view text) {
  return std::any_of(std::begin(kPhrases), std::end(kPhrases), [&](std::string_view phrase) {
    return text.find(phrase) != std::string_view::npos;
  });
}

}  // namespace

// A class alone is not enough for JAX, whose errors share one; a MemoryError of Python is the
// host's memory.
bool IsOutOfGpuMemory(const ErrorInfo& error) {
  const bool is_class =
      std::find(std::begin(kClasses), std::end(kClasses), error.kind) != std::end(kClasses);
  return is_class || Says(error.message) || (error.message.empty() && Says(error.traceback));
}

ErrorInfo WithOutOfMemory(ErrorInfo error, const GpuUse& use) {
  if (use.devices == 0 || !IsOutOfGpuMemory(error)) return error;
  error.kind = kGpuOutOfMemory;
  if (use.samples == 0) return error;
  error.message += " [rt: the samples of each second had up to " + BytesText(use.memory_peak) +
                   " of the gpu's " + BytesText(use.memory_size) + " in use]";
  return error;
}

}  // namespace rt::worker
