#include <catch2/catch.hpp>

#include "common/aws/sigv4.h"
#include "common/base/status.h"

using namespace rt;

namespace {

constexpr Millis kAt = 1'440'938'160'000;  // 2015-08-30T12:36:00Z
constexpr char kUnreserved[] = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr char kToken[] =
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPf"
    "IeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ"
    "0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDr"
    "ypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Vector {
  const char* name;
  const char* signature;
  std::string method = "GET";
  std::string path = "/";
  Pairs query = {};
  Pairs headers = {};
  std::string body = "";
  std::string token = "";
};

// The AWS signing test suite (awslabs/aws-c-auth, tests/aws-signing-test-suite/v4), without the
// cases of path normalisation, which S3 does not have, and those that repeat another's request.
std::vector<Vector> HeadersAndPaths() {
  return {
      {"get-vanilla", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-header-key-duplicate",
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
       "GET",
       "/",
       {},
       {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}}},
      {"get-header-value-multiline",
       "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd",
       "GET",
       "/",
       {},
       {{"My-Header1", "value1\n  value2\n     value3"}}},
      {"get-header-value-order",
       "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
       "GET",
       "/",
       {},
       {{"My-Header1", "value4"},
        {"My-Header1", "value1"},
        {"My-Header1", "value3"},
        {"My-Header1", "value2"}}},
      {"get-header-value-trim",
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
       "GET",
       "/",
       {},
       {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}},
      {"get-space-unnormalized", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
       "GET", "/example space/"},
      {"get-slashes-unnormalized",
       "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5", "GET", "//example//"},
      {"get-relative-unnormalized",
       "eca7ead57bb5aa5c8e28007acd4ff04e1ff9a0ff3b237ec1554a184887ff9282", "GET", "/example/.."},
      {"get-unreserved", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f", "GET",
       std::string("/") + kUnreserved},
      {"get-utf8", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85", "GET",
       "/\xe1\x88\xb4"},
  };
}

std::vector<Vector> Queries() {
  return {
      {"get-vanilla-empty-query-key",
       "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
       "GET",
       "/",
       {{"Param1", "value1"}}},
      {"get-vanilla-query-order-encoded",
       "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
       "GET",
       "/",
       {{"Param-3", "Value3"}, {"Param", "Value2"}, {"\xe1\x88\xb4", "Value1"}}},
      {"get-vanilla-query-order-key-case",
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
       "GET",
       "/",
       {{"Param2", "value2"}, {"Param1", "value1"}}},
      {"get-vanilla-query-unreserved",
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
       "GET",
       "/",
       {{kUnreserved, kUnreserved}}},
      {"get-vanilla-utf8-query",
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
       "GET",
       "/",
       {{"\xe1\x88\xb4", "bar"}}},
      {"get-vanilla-with-session-token",
       "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
       "GET",
       "/",
       {},
       {},
       "",
       "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"},
  };
}

std::vector<Vector> Bodies() {
  auto with_form = [&](const char* type) {
    return Pairs{{"Content-Type", type},
                 {"Content-Length", "13"},
                 {"x-amz-content-sha256", Sha256Hex("Param1=value1")}};
  };
  return {
      {"post-header-key-sort",
       "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
       "POST",
       "/",
       {},
       {{"My-Header1", "value1"}}},
      {"post-header-value-case",
       "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
       "POST",
       "/",
       {},
       {{"My-Header1", "VALUE1"}}},
      {"post-sts-header-before",
       "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
       "POST",
       "/",
       {},
       {},
       "",
       kToken},
      {"post-vanilla", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", "POST"},
      {"post-vanilla-query",
       "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
       "POST",
       "/",
       {{"Param1", "value1"}}},
      {"post-x-www-form-urlencoded",
       "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
       "POST",
       "/",
       {},
       with_form("application/x-www-form-urlencoded"),
       "Param1=value1"},
      {"post-x-www-form-urlencoded-parameters",
       "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422",
       "POST",
       "/",
       {},
       with_form("application/x-www-form-urlencoded; charset=utf-8"),
       "Param1=value1"},
  };
}

std::vector<Vector> Vectors() {
  std::vector<Vector> all = HeadersAndPaths();
  for (const std::vector<Vector>& more : {Queries(), Bodies()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("sigv4: the official vectors") {
  for (const Vector& vector : Vectors()) {
    INFO(vector.name);
    SignedRequest request{.method = vector.method,
                          .host = "example.amazonaws.com",
                          .path = vector.path,
                          .query = vector.query,
                          .headers = vector.headers,
                          .payload_hash = Sha256Hex(vector.body)};
    auto headers = SignRequest(request, {.region = "us-east-1", .service = "service", .at = kAt},
                               {.access_key_id = "AKIDEXAMPLE",
                                .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                .session_token = vector.token});
    CHECK(headers.back().first == "Authorization");
    CHECK(headers.back().second.ends_with(std::string("Signature=") + vector.signature));
    CHECK(headers.back().second.find("wJalr") == std::string::npos);
  }
}

TEST_CASE("sigv4: what stands in the URL is what was signed") {
  SignedRequest request{.path = "/a b/c", .query = {{"z", "1/2"}, {"prefix", ""}, {"a", "+"}}};
  CHECK(RequestTarget(request) == "/a%20b/c?a=%2B&prefix=&z=1%2F2");
  CHECK(PercentEncode("a/b") == "a%2Fb");
}
