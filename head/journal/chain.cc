#include "head/journal/chain.h"

#include <openssl/evp.h>

#include "common/base/check.h"

namespace rt {
namespace {

// SHA-256 with the algorithm looked up once a thread: OpenSSL's one-call form looks it up for every
// hash, which costs more than the hash of a record does.
class Sha256 {
 public:
  Sha256() : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
    RT_CHECK(algorithm_ != nullptr && context_ != nullptr);
  }
  ~Sha256() {
    EVP_MD_CTX_free(context_);
    EVP_MD_free(algorithm_);
  }
  std::string Of(std::string_view before, std::string_view body) {
    std::string hash(kHashBytes, '\0');
    unsigned size = 0;
    RT_CHECK(EVP_DigestInit_ex2(context_, algorithm_, nullptr) == 1);
    RT_CHECK(EVP_DigestUpdate(context_, before.data(), before.size()) == 1);
    RT_CHECK(EVP_DigestUpdate(context_, body.data(), body.size()) == 1);
    RT_CHECK(EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(hash.data()), &size));
    RT_CHECK(size == kHashBytes);
    return hash;
  }

 private:
  EVP_MD* algorithm_;
  EVP_MD_CTX* context_;
};

}  // namespace

std::string Chain(std::string_view before, std::string_view body) {
  static thread_local Sha256 sha256;
  return sha256.Of(before, body);
}

std::string RowsHash(uint64_t event_seq, std::string_view body) {
  return Chain("rows " + std::to_string(event_seq) + ":", body);
}

}  // namespace rt
