#include "common/base/crc32c.h"

#include <array>

namespace rt {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // Reflected.

// Eight tables: tables[k][b] is byte b followed by k zero bytes.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

uint32_t Byte(std::string_view bytes, size_t at) { return static_cast<unsigned char>(bytes[at]); }

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    crc ^= Byte(bytes, 0) | Byte(bytes, 1) << 8 | Byte(bytes, 2) << 16 | Byte(bytes, 3) << 24;
    crc = kTables[7][crc & 0xFF] ^ kTables[6][crc >> 8 & 0xFF] ^ kTables[5][crc >> 16 & 0xFF] ^
          kTables[4][crc >> 24] ^ kTables[3][Byte(bytes, 4)] ^ kTables[2][Byte(bytes, 5)] ^
          kTables[1][Byte(bytes, 6)] ^ kTables[0][Byte(bytes, 7)];
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ Byte(bytes, i)) & 0xFF];
  }
  return crc ^ 0xFFFFFFFF;
}

}  // namespace rt
