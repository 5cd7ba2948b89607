// Bounds on the resources that one request may name, and one node may offer. Each name is kept for
// every bundle, is compared at each placement, and is listed in every Status.
#pragma once

#include <cstddef>

namespace rt::limits {

// Custom resources that one bundle asks for: people name some kinds of hardware and licences.
inline constexpr size_t kCustomResourcesMax = 32;
// Types of gpus from which a request takes one: placement tries each.
inline constexpr size_t kGpuTypesMax = 8;
// Custom resources of all bundles of a request together: 1 024 bundles with four names each. As
// text that is a quarter of what Status lists.
inline constexpr size_t kBundleNamesMax = 4'096;
// Custom resources, and labels, of one node.
inline constexpr size_t kNodeNamesMax = 256;

}  // namespace rt::limits
