#include <catch2/catch.hpp>

#include "common/rpc/seal.h"

using namespace rt;

TEST_CASE("seal: a secret opens with its passphrase only") {
  const std::string sealed = SealSecret("the secret", "a passphrase");
  CHECK(sealed.find("secret") == std::string::npos);
  CHECK(*OpenSecret(sealed + "\n", "a passphrase") == "the secret");
  CHECK(absl::IsPermissionDenied(OpenSecret(sealed, "another").status()));
  CHECK(SealSecret("the secret", "a passphrase") != sealed);
  CHECK(*OpenSecret(SealSecret("", "k"), "k") == "");
}

TEST_CASE("seal: what was altered or cut does not open") {
  const std::string sealed = SealSecret("the secret", "a passphrase");
  std::string altered = sealed;
  altered[altered.size() - 6] = altered[altered.size() - 6] == 'A' ? 'B' : 'A';
  CHECK(!OpenSecret(altered, "a passphrase").ok());
  CHECK(absl::IsDataLoss(OpenSecret(sealed.substr(0, 20), "a passphrase").status()));
  CHECK(absl::IsDataLoss(OpenSecret("nonsense", "a passphrase").status()));
}
