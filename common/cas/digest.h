// Names of bytes: "b3:<64 hex>" (BLAKE3) or "sha256:<64 hex>". A build writes one kind (BLAKE3 when
// its source is found) and its name is part of every digest, so the kinds never mix silently. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rt {

enum class HashKind { kBlake3, kSha256 };
HashKind DefaultHashKind();
// "b3", "sha256".
std::string_view HashName(HashKind kind);

std::string HashBytes(std::string_view bytes);  // 32 raw bytes, of the default kind.
std::string Digest(std::string_view bytes);     // The text, of the default kind.
bool IsDigest(std::string_view text);           // Well formed, of a known kind.
std::string_view DigestHex(std::string_view digest);  // The 64 hex digits of a well-formed digest.
// DataLoss when the bytes have another digest; Unimplemented when this build lacks its kind.
absl::Status VerifyDigest(std::string_view digest, std::string_view bytes);

// The digest of bytes that come in pieces.
class Hasher {
 public:
  explicit Hasher(HashKind kind = DefaultHashKind());
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void Update(std::string_view bytes);
  std::string Finish();  // The text; the hasher is used up.
  std::string FinishRaw();  // 32 raw bytes; the hasher is used up.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rt
