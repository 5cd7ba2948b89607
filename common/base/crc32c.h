// CRC-32C (Castagnoli), as TFRecord files use it.
#pragma once

#include <cstdint>
#include <string_view>

namespace rt {

uint32_t Crc32c(std::string_view bytes);

}  // namespace rt
