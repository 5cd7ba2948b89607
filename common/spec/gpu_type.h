// The kind of a gpu, such as "H100", for requests that name it (resources/gpu_type). A node has the
// custom resource "accelerator_type:H100" for the kind of its gpus, as Ray's nodes have, so
// placement and planner need no rule of their own.
#pragma once

#include <string>
#include <string_view>

#include "common/spec/resources.h"

namespace rt {

// The type in a name that NVML or a cloud reports: "H100" for "NVIDIA H100 80GB HBM3", "RTX3090"
// for "NVIDIA GeForce RTX 3090". A MIG instance has a type of its own, such as "H100-MIG". Empty:
// no word of the name has letters and digits.
std::string GpuTypeOf(std::string_view name);
// "accelerator_type:H100".
std::string GpuTypeResource(std::string_view type);
// Adds that resource for a node whose gpus have these types, if they are all alike. It bounds
// nothing: requests ask for a ten-thousandth.
void AddGpuType(Resources& node, const std::string& type);
inline constexpr int64_t kGpuTypeUnits = 1;

}  // namespace rt
