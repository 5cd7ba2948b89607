// The wire format of protobuf, as far as records use it: varints, 64-bit words and bytes under
// a tag. A writer that appends to a string, and a reader that never reads beyond its end: a reader
// that met malformed bytes has failed and yields nothing more.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace rt::codec {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class WireWriter {
 public:
  void Varint(uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }
  void Tag(uint32_t number, WireType type) {
    Varint(uint64_t{number} << 3 | static_cast<uint32_t>(type));
  }
  void Fixed64(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void Bytes(std::string_view value) {
    Varint(value.size());
    bytes_ += value;
  }
  // What is written until Close gets its length in front of it. Blocks may be nested.
  size_t Open() {
    bytes_ += '\0';  // Room for the length of a short block, which most are.
    return bytes_.size();
  }
  void Close(size_t opened) {
    uint64_t length = bytes_.size() - opened;
    if (length >= 0x80) {
      WireWriter prefix;
      prefix.Varint(length);
      bytes_.replace(opened - 1, 1, prefix.bytes_);
    } else {
      bytes_[opened - 1] = static_cast<char>(length);
    }
  }
  // Forgets a block and the tag before it.
  void Cut(size_t size) { bytes_.resize(size); }
  size_t size() const { return bytes_.size(); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool failed() const { return failed_; }
  // The number of the next field; 0 at the end and after a failure.
  uint32_t NextField() {
    if (number_ != 0 || at_ == end_) return number_;
    const uint64_t tag = Varint();
    type_ = static_cast<WireType>(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 >= 1u << 29) return Fail();
    return number_ = static_cast<uint32_t>(tag >> 3);
  }
  WireType type() const { return type_; }  // Of the field that NextField named.

  // Each takes the value of the field that NextField named. Another type is a failure.
  uint64_t TakeVarint() { return Take(WireType::kVarint) ? Varint() : 0; }
  uint64_t TakeFixed64() { return Take(WireType::kFixed64) ? Fixed64() : 0; }
  std::string_view TakeBytes() { return Take(WireType::kBytes) ? Bytes(Varint()) : ""; }
  void Skip() {
    number_ = 0;
    switch (type_) {
      case WireType::kVarint: Varint(); return;
      case WireType::kFixed64: Bytes(8); return;
      case WireType::kBytes: Bytes(Varint()); return;
      case WireType::kFixed32: Bytes(4); return;
    }
    Fail();
  }
  // Also for a part of this that was found malformed.
  uint32_t Fail() {
    failed_ = true;
    at_ = end_;
    return number_ = 0;
  }
  // Values of a packed list follow one another without tags.
  bool AtEnd() const { return at_ == end_; }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) return Fail();
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return Fail();
  }
  uint64_t Fixed64() {
    const std::string_view bytes = Bytes(8);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i)
      value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }

 private:
  bool Take(WireType type) {
    number_ = 0;
    if (type_ != type) Fail();
    return !failed_;
  }
  std::string_view Bytes(uint64_t size) {
    if (size > static_cast<uint64_t>(end_ - at_)) {
      Fail();
      return {};
    }
    const char* from = at_;
    at_ += size;
    return {from, static_cast<size_t>(size)};
  }

  const char* at_;
  const char* end_;
  uint32_t number_ = 0;
  WireType type_ = WireType::kVarint;
  bool failed_ = false;
};

}  // namespace rt::codec
