#include <catch2/catch.hpp>

#include "common/base/strings.h"
#include "common/cas/chunker.h"
#include "common/cas/digest.h"

using namespace rt;

TEST_CASE("digest: the published values of the empty input") {
  Hasher sha256(HashKind::kSha256);
  CHECK(sha256.Finish() ==
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  if (DefaultHashKind() == HashKind::kBlake3)
    CHECK(Digest("") == "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

TEST_CASE("digest: pieces and the whole agree") {
  std::string bytes(300'000, 'q');
  Hasher hasher;
  for (size_t at = 0; at < bytes.size(); at += 12'345)
    hasher.Update(std::string_view(bytes).substr(at, 12'345));
  CHECK(hasher.Finish() == Digest(bytes));
  CHECK(ToHex(HashBytes(bytes)) == DigestHex(Digest(bytes)));
  CHECK(HashBytes(bytes).size() == 32);
}

TEST_CASE("digest: only well-formed texts are digests, and bytes are verified") {
  std::string digest = Digest("abc");
  CHECK(IsDigest(digest));
  CHECK(!IsDigest(digest + "0"));
  CHECK(!IsDigest("md5:" + std::string(64, '0')));
  CHECK(!IsDigest("b3:" + std::string(64, 'A')));
  CHECK(!IsDigest("b3:" + std::string(62, '0') + "/."));
  CHECK(VerifyDigest(digest, "abc").ok());
  CHECK(VerifyDigest(digest, "abd").code() == absl::StatusCode::kDataLoss);
  CHECK(VerifyDigest("x", "abd").code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("chunker: spans cover the file, none for an empty one") {
  CHECK(ChunkSpans(0).empty());
  CHECK(ChunkSpans(10, 4) == std::vector<ChunkSpan>{{0, 4}, {4, 4}, {8, 2}});
  CHECK(ChunkSpans(8, 4) == std::vector<ChunkSpan>{{0, 4}, {4, 4}});
}
