#include "head/journal/chain.h"

#include <openssl/sha.h>

namespace rt {

static_assert(kHashBytes == SHA256_DIGEST_LENGTH);

std::string Chain(std::string_view before, std::string_view body) {
  std::string joined;
  joined.reserve(before.size() + body.size());
  joined.append(before).append(body);
  std::string hash(kHashBytes, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(joined.data()), joined.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

std::string RowsHash(uint64_t event_seq, std::string_view body) {
  return Chain("rows " + std::to_string(event_seq) + ":", body);
}

}  // namespace rt
