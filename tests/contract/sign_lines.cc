// Signs the requests that s3.py describes, one JSON object per line of standard input; writes their
// Authorization headers.
#include <iostream>

#include "common/aws/credential_chain.h"
#include "common/aws/sigv4.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/strings.h"

using namespace rt;

namespace {

std::vector<std::pair<std::string, std::string>> PairsIn(const Json& json, const char* key) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [name, value] : json.Find(key)->object())
    pairs.emplace_back(name, value.AsString());
  return pairs;
}

// "20150830T123600Z"
Millis TimeOf(const std::string& basic) {
  return ParseIsoTime(basic.substr(0, 4) + "-" + basic.substr(4, 2) + "-" + basic.substr(6, 5) +
                      ":" + basic.substr(11, 2) + ":" + basic.substr(13));
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Json json = Json::Parse(line).value();
    SignedRequest request{.method = json.GetString("method"), .host = json.GetString("host"),
                          .path = json.GetString("path"), .query = PairsIn(json, "query"),
                          .headers = PairsIn(json, "headers"),
                          .payload_hash = Sha256Hex(FromHex(json.GetString("body")).value())};
    request.headers.emplace_back("x-amz-content-sha256", request.payload_hash);
    SigningScope scope{.region = json.GetString("region"),
                       .at = TimeOf(json.GetString("time"))};
    auto headers = SignRequest(request, scope,
                               {.access_key_id = "AKID", .secret_access_key = "secret/+key",
                                .session_token = json.GetString("token")});
    RT_CHECK(headers.back().first == "Authorization");
    std::cout << headers.back().second << "\n";
  }
  return 0;
}
