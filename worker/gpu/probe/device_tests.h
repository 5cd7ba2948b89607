// What rt-probe does on one gpu. Each function runs on the calling thread's current device, fills
// in its part of the report, and returns what CUDA refused; empty: nothing.
#pragma once

#include <cstdint>
#include <string>

#include "worker/gpu/probe/report.h"

namespace rt::probe {

int CountDevices(std::string& fault);
std::string Use(int device);  // Makes it the current one of this thread.
std::string Describe(int device, DeviceReport& report);
// Writes a pattern of addresses and its complement to most of the free memory, at most `bytes_max`
// of it (0: no bound), and reads both back. Then copies within it.
std::string TestMemory(uint64_t bytes_max, DeviceReport& report);
std::string TestMatmul(DeviceReport& report);
std::string TestHostCopies(DeviceReport& report);

}  // namespace rt::probe
