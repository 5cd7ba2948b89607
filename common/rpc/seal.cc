#include "common/rpc/seal.h"

#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include <memory>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

constexpr std::string_view kPrefix = "rtseal1.";
constexpr size_t kSaltBytes = 16, kNonceBytes = 12, kTagBytes = 16, kKeyBytes = 32;
// 32 MiB and some 100 ms a guess: a passphrase that people can remember is worth that.
constexpr uint64_t kScryptN = 1 << 15, kScryptR = 8, kScryptP = 1, kScryptBytesMax = 64 << 20;

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

unsigned char* Raw(std::string& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }
const unsigned char* Raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::string Random(size_t size) {
  std::string bytes(size, '\0');
  RT_CHECK(RAND_bytes(Raw(bytes), static_cast<int>(size)) == 1);
  return bytes;
}

std::string KeyOf(std::string_view passphrase, std::string_view salt) {
  std::string key(kKeyBytes, '\0');
  RT_CHECK(EVP_PBE_scrypt(passphrase.data(), passphrase.size(), Raw(salt), salt.size(), kScryptN,
                          kScryptR, kScryptP, kScryptBytesMax, Raw(key), key.size()) == 1);
  return key;
}

}  // namespace

std::string SealSecret(std::string_view secret, std::string_view passphrase) {
  const std::string salt = Random(kSaltBytes), nonce = Random(kNonceBytes);
  std::string key = KeyOf(passphrase, salt);
  Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  RT_CHECK(cipher != nullptr);
  std::string text(secret.size(), '\0'), tag(kTagBytes, '\0');
  int size = 0, rest = 0;
  RT_CHECK(EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Raw(key),
                              Raw(std::string_view(nonce))) == 1);
  RT_CHECK(EVP_EncryptUpdate(cipher.get(), Raw(text), &size, Raw(secret),
                             static_cast<int>(secret.size())) == 1);
  RT_CHECK(EVP_EncryptFinal_ex(cipher.get(), Raw(text) + size, &rest) == 1);
  RT_CHECK(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1);
  return std::string(kPrefix) + Base64Encode(salt + nonce + tag + text);
}

absl::StatusOr<std::string> OpenSecret(std::string_view sealed, std::string_view passphrase) {
  constexpr size_t kHeader = kSaltBytes + kNonceBytes + kTagBytes;
  sealed = Trim(sealed);
  std::optional<std::string> bytes;
  if (sealed.starts_with(kPrefix)) bytes = Base64Decode(sealed.substr(kPrefix.size()));
  if (!bytes.has_value() || bytes->size() < kHeader)
    return absl::DataLossError("this is not a sealed secret (it begins with rtseal1.)");
  const std::string_view all = *bytes;
  std::string key = KeyOf(passphrase, all.substr(0, kSaltBytes));
  std::string tag(all.substr(kSaltBytes + kNonceBytes, kTagBytes));
  const std::string_view text = all.substr(kHeader);
  std::string secret(text.size(), '\0');
  Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  RT_CHECK(cipher != nullptr);
  int size = 0, rest = 0;
  RT_CHECK(EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Raw(key),
                              Raw(all.substr(kSaltBytes, kNonceBytes))) == 1);
  RT_CHECK(EVP_DecryptUpdate(cipher.get(), Raw(secret), &size, Raw(text),
                             static_cast<int>(text.size())) == 1);
  RT_CHECK(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1);
  if (EVP_DecryptFinal_ex(cipher.get(), Raw(secret) + size, &rest) == 1) return secret;
  return absl::PermissionDeniedError("the key does not fit, or what it sealed was altered");
}

}  // namespace rt
