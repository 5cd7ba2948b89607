#include "common/aws/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <map>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace rt {
namespace {

std::string Hmac(std::string_view key, std::string_view text) {
  std::string mac(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  RT_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                reinterpret_cast<unsigned char*>(mac.data()), &size) != nullptr);
  mac.resize(size);
  return mac;
}

// Outer blanks go, inner ones become one.
std::string Squeezed(std::string_view text) {
  std::string squeezed;
  for (char c : Trim(text)) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (blank && squeezed.ends_with(' ')) continue;
    squeezed += blank ? ' ' : c;
  }
  return squeezed;
}

std::string Lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string CanonicalQuery(const SignedRequest& request) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [key, value] : request.query)
    encoded.emplace_back(PercentEncode(key), PercentEncode(value));
  std::sort(encoded.begin(), encoded.end());
  std::vector<std::string> parts;
  for (const auto& [key, value] : encoded) parts.push_back(key + "=" + value);
  return Join(parts, "&");
}

// "20150830T123600Z"
std::string BasicTime(Millis at) {
  std::string text;
  for (char c : FormatTime(at - at % 1000).substr(0, 19))
    if (c != '-' && c != ':') text += c;
  return text + "Z";
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  std::string hash(32, '\0');
  RT_CHECK(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(hash.data()),
                      nullptr, EVP_sha256(), nullptr) == 1);
  return ToHex(hash);
}

std::string PercentEncode(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes);
    if (plain) {
      encoded += c;
      continue;
    }
    encoded += '%';
    encoded += kDigits[static_cast<unsigned char>(c) >> 4];
    encoded += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return encoded;
}

std::string PercentDecode(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    auto byte =
        text[at] == '%' && at + 2 < text.size() ? FromHex(text.substr(at + 1, 2)) : std::nullopt;
    if (byte.has_value() && byte->size() == 1) {
      plain += *byte;
      at += 2;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

std::string RequestTarget(const SignedRequest& request) {
  std::string query = CanonicalQuery(request);
  return PercentEncode(request.path, true) + (query.empty() ? "" : "?" + query);
}

std::vector<std::pair<std::string, std::string>> SignRequest(const SignedRequest& request,
                                                             const SigningScope& scope,
                                                             const AwsCredentials& credentials) {
  const std::string time = BasicTime(scope.at), day = time.substr(0, 8);
  auto headers = request.headers;
  headers.emplace_back("x-amz-date", time);
  if (!credentials.session_token.empty())
    headers.emplace_back("x-amz-security-token", credentials.session_token);

  std::map<std::string, std::string> canonical = {{"host", request.host}};
  for (const auto& [name, value] : headers) {
    auto [at, added] = canonical.try_emplace(Lower(name), Squeezed(value));
    if (!added) at->second += "," + Squeezed(value);  // The same header again: a list.
  }
  std::string lines;
  std::vector<std::string> names;
  for (const auto& [name, value] : canonical) {
    lines += name + ":" + value + "\n";
    names.push_back(name);
  }
  const std::string signed_names = Join(names, ";");
  const std::string canonical_request = request.method + "\n" + PercentEncode(request.path, true) +
                                        "\n" + CanonicalQuery(request) + "\n" + lines + "\n" +
                                        signed_names + "\n" + request.payload_hash;

  const std::string credential_scope =
      day + "/" + scope.region + "/" + scope.service + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + time + "\n" + credential_scope + "\n" + Sha256Hex(canonical_request);
  std::string key = "AWS4" + credentials.secret_access_key;
  for (const std::string& part : {day, scope.region, scope.service, std::string("aws4_request")})
    key = Hmac(key, part);
  headers.emplace_back("Authorization", "AWS4-HMAC-SHA256 Credential=" + credentials.access_key_id +
                                            "/" + credential_scope +
                                            ", SignedHeaders=" + signed_names +
                                            ", Signature=" + ToHex(Hmac(key, to_sign)));
  return headers;
}

}  // namespace rt
