#include "common/cas/digest.h"

#include <openssl/evp.h>

#ifdef RT_HAVE_BLAKE3
#include <blake3.h>
#endif

#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr size_t kHexDigits = 64;

std::optional<HashKind> KindOf(std::string_view digest) {
  for (HashKind kind : {HashKind::kBlake3, HashKind::kSha256}) {
    std::string_view name = HashName(kind);
    if (digest.size() == name.size() + 1 + kHexDigits && digest.starts_with(name) &&
        digest[name.size()] == ':')
      return kind;
  }
  return std::nullopt;
}

bool IsSupported([[maybe_unused]] HashKind kind) {
#ifdef RT_HAVE_BLAKE3
  return true;
#else
  return kind == HashKind::kSha256;
#endif
}

#ifdef RT_HAVE_BLAKE3
// The library looks at the processor in its first hash and keeps what it saw in a plain global
// variable, so two first hashes in two threads race. One hash before all others settles it.
void LetBlake3LookAtTheCpu() {
  [[maybe_unused]] static const bool looked = [] {
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    unsigned char out[BLAKE3_OUT_LEN];
    blake3_hasher_finalize(&hasher, out, sizeof out);
    return true;
  }();
}
#endif

}  // namespace

struct Hasher::Impl {
  HashKind kind;
#ifdef RT_HAVE_BLAKE3
  blake3_hasher blake3;
#endif
  EVP_MD_CTX* sha256 = nullptr;
  ~Impl() { EVP_MD_CTX_free(sha256); }
};

HashKind DefaultHashKind() {
  return IsSupported(HashKind::kBlake3) ? HashKind::kBlake3 : HashKind::kSha256;
}

std::string_view HashName(HashKind kind) {
  switch (kind) {
    case HashKind::kBlake3: return "b3";
    case HashKind::kSha256: return "sha256";
  }
  RT_CHECK_BECAUSE(false, "a HashKind without a name");
}

Hasher::Hasher(HashKind kind) : impl_(std::make_unique<Impl>()) {
  RT_CHECK_BECAUSE(IsSupported(kind), "this build has no such hash");
  impl_->kind = kind;
#ifdef RT_HAVE_BLAKE3
  if (kind == HashKind::kBlake3) {
    LetBlake3LookAtTheCpu();
    blake3_hasher_init(&impl_->blake3);
    return;
  }
#endif
  impl_->sha256 = EVP_MD_CTX_new();
  RT_CHECK(EVP_DigestInit_ex(impl_->sha256, EVP_sha256(), nullptr) == 1);
}

Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::Update(std::string_view bytes) {
#ifdef RT_HAVE_BLAKE3
  if (impl_->kind == HashKind::kBlake3) {
    blake3_hasher_update(&impl_->blake3, bytes.data(), bytes.size());
    return;
  }
#endif
  RT_CHECK(EVP_DigestUpdate(impl_->sha256, bytes.data(), bytes.size()) == 1);
}

std::string Hasher::FinishRaw() {
  std::string raw(32, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
#ifdef RT_HAVE_BLAKE3
  if (impl_->kind == HashKind::kBlake3) {
    blake3_hasher_finalize(&impl_->blake3, out, raw.size());
    return raw;
  }
#endif
  RT_CHECK(EVP_DigestFinal_ex(impl_->sha256, out, nullptr) == 1);
  return raw;
}

std::string Hasher::Finish() {
  return std::string(HashName(impl_->kind)) + ":" + ToHex(FinishRaw());
}

std::string HashBytes(std::string_view bytes) {
  Hasher hasher;
  hasher.Update(bytes);
  return hasher.FinishRaw();
}

std::string Digest(std::string_view bytes) {
  Hasher hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

bool IsDigest(std::string_view text) {
  if (!KindOf(text).has_value()) return false;
  std::string_view hex = DigestHex(text);
  return std::all_of(hex.begin(), hex.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

std::string_view DigestHex(std::string_view digest) {
  RT_CHECK(digest.size() > kHexDigits);
  return digest.substr(digest.size() - kHexDigits);
}

absl::Status VerifyDigest(std::string_view digest, std::string_view bytes) {
  if (!IsDigest(digest)) return Invalid("'" + EscapeControl(digest.substr(0, 80)) +
                                        "' is not a digest");
  HashKind kind = *KindOf(digest);
  if (!IsSupported(kind))
    return absl::UnimplementedError("this build of rt cannot verify BLAKE3 digests");
  Hasher hasher(kind);
  hasher.Update(bytes);
  if (hasher.Finish() == digest) return absl::OkStatus();
  return absl::DataLossError(ToAbsl("the bytes do not have the digest " + std::string(digest)));
}

}  // namespace rt
