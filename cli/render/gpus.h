// A gpu of a node in one line, for `rt node show`: what a person looks for first. The JSON has
// more.
#pragma once

#include <string>

#include "common/base/json.h"

namespace rt {

// "0 READY NVIDIA H100, 74.5 GiB: 97 % busy, 12.0 GiB in use, 61 C, 423 W, 1980 MHz; slowed by
// power; pid 77 (python, 1/0)". `gpu` as in the JSON of a node; what it does not tell is left out.
std::string GpuText(const Json& gpu);

}  // namespace rt
