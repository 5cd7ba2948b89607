// A 256-bit fingerprint that finds accidental change (bit flips, lost rows); not cryptographic.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/rng.h"

namespace rt {

class Fingerprint {
 public:
  void Add(std::string_view bytes) {
    AddWord(bytes.size());
    while (bytes.size() >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      AddWord(word);
      bytes.remove_prefix(8);
    }
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    AddWord(word);
  }
  void AddWord(uint64_t word) {
    uint64_t& lane = lanes_[count_ % lanes_.size()];
    lane = Mix64(lane ^ Mix64(word + count_++));
  }
  std::string Finish() const {  // 32 bytes.
    std::array<uint64_t, 4> out = lanes_;
    uint64_t all = count_;
    for (uint64_t lane : lanes_) all = Mix64(all ^ lane);
    for (uint64_t& lane : out) lane = Mix64(lane ^ all);
    return std::string(reinterpret_cast<const char*>(out.data()), sizeof out);
  }

 private:
  std::array<uint64_t, 4> lanes_ = {1, 2, 3, 4};
  uint64_t count_ = 0;
};

}  // namespace rt
