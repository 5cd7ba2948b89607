// The system's generator, for names and secrets. (Decisions draw by counter: common/base/rng.h.)
#pragma once

#include <cstddef>
#include <string>

namespace rt {

// So many random bytes, as twice as many hexadecimal digits.
std::string RandomHex(size_t bytes);

}  // namespace rt
