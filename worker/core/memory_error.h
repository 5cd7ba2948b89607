// Whether a program failed because a gpu's memory was used up, told from what it or its library
// said. Pure.
#pragma once

#include <string_view>

#include "common/spec/gpu_facts.h"
#include "common/spec/observed.h"

namespace rt::worker {

// PyTorch's and JAX's exceptions, and what CUDA, cuBLAS and NCCL say in a message or in the end of
// a log.
bool IsOutOfGpuMemory(const ErrorInfo& error);

// Of such an error the class is kGpuOutOfMemory, and its message says how much was in use and how
// much the gpu has, as far as the error or the samples tell. Others are as they were, and so is
// every error of an attempt without gpus.
ErrorInfo WithOutOfMemory(ErrorInfo error, const GpuUse& use);

}  // namespace rt::worker
