// A fuzzer's bytes as values: what is taken beyond the end is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rt::fuzz {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool done() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  uint64_t Below(uint64_t bound) { return Byte() % bound; }
  bool Chance() { return Byte() % 2 == 1; }
  // Up to 255 bytes, as long as its first byte says.
  std::string_view Text() {
    const size_t size = std::min<size_t>(Byte(), rest_.size());
    std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view rest_;
};

}  // namespace rt::fuzz
