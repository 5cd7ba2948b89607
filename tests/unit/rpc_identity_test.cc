#include <catch2/catch.hpp>
#include <sys/stat.h>

#include "common/base/status.h"
#include "common/rpc/identity.h"
#include "common/run/files.h"
#include "common/run/random.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {
constexpr Millis kHour = 3'600'000;
const Identity kWorker{.cluster_id = "c1", .kind = "node", .name = "n-7", .role = "worker"};
}  // namespace

TEST_CASE("identity: a certificate says who its holder is") {
  auto ca = CreateCa("c1");
  REQUIRE(ca.ok());
  auto pair = IssueKeyPair(*ca, kWorker, kHour, {});
  REQUIRE(pair.ok());
  auto identity = IdentityOf(pair->certificate_pem);
  REQUIRE(identity.ok());
  CHECK(identity->cluster_id == "c1");
  CHECK(identity->kind == "node");
  CHECK(identity->name == "n-7");
  CHECK(identity->role == "worker");
  auto head = IssueKeyPair(*ca, {.cluster_id = "c1", .kind = "head", .role = "head"}, kHour,
                           {"127.0.0.1", "::1", "localhost"});
  REQUIRE(head.ok());
  CHECK(IdentityOf(head->certificate_pem)->kind == "head");
  CHECK(!IdentityOf(ca->certificate_pem).ok());
  CHECK(!IdentityOf("nonsense").ok());
}

TEST_CASE("identity: names that could smuggle another identity are refused") {
  auto ca = CreateCa("c1");
  REQUIRE(ca.ok());
  for (const char* name : {"", "a/b", "a,URI:spiffe://c1/role/admin", "a b", "a\n"}) {
    Identity identity = kWorker;
    identity.name = name;
    CHECK(!IssueKeyPair(*ca, identity, kHour, {}).ok());
  }
  Identity odd = kWorker;
  odd.role = "root";
  CHECK(!IssueKeyPair(*ca, odd, kHour, {}).ok());
  CHECK(!IssueKeyPair(*ca, kWorker, kHour, {"x,DNS:evil"}).ok());
  CHECK(!CreateCa("c1/x").ok());
}

TEST_CASE("identity: a CSR is signed for the identity we choose, if its signature holds") {
  auto ca = CreateCa("c1");
  auto key = CreateKey();
  auto csr = CreateCsr(*key);
  REQUIRE(csr.ok());
  auto signed_pem = SignCsr(*ca, *csr, kWorker, kHour);
  REQUIRE(signed_pem.ok());
  CHECK(IdentityOf(*signed_pem)->name == "n-7");
  std::string damaged = *csr;
  damaged[damaged.size() / 2] = damaged[damaged.size() / 2] == 'A' ? 'B' : 'A';
  CHECK(!SignCsr(*ca, damaged, kWorker, kHour).ok());
  CHECK(!SignCsr(*ca, "", kWorker, kHour).ok());
}

TEST_CASE("identity: credentials and tokens read back the same, files are private") {
  auto ca = CreateCa("c1");
  auto pair = IssueKeyPair(*ca, {.cluster_id = "c1", .kind = "join", .name = "t1", .role = "join"},
                           kHour, {});
  REQUIRE(pair.ok());
  Credentials credentials{ca->certificate_pem, *pair};
  TempDir directory("identity");
  std::string path = directory.File("a/b");
  REQUIRE(WriteCredentials(path, credentials).ok());
  auto read = ReadCredentials(path);
  REQUIRE(read.ok());
  CHECK(read->own.key_pem == pair->key_pem);
  struct stat info {};
  REQUIRE(::stat((path + "/key.pem").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);

  std::string text = EncodeJoinToken({"t1", "c1", credentials, "user", "alice"});
  CHECK(text.starts_with("rtj1."));
  auto token = DecodeJoinToken(text + "\n");
  REQUIRE(token.ok());
  CHECK(token->id == "t1");
  CHECK((token->role == "user" && token->name == "alice"));
  CHECK(token->credentials.own.certificate_pem == pair->certificate_pem);
  CHECK(!DecodeJoinToken("rtj1.!!!").ok());
  CHECK(!DecodeJoinToken(text.substr(0, text.size() / 2)).ok());
  CHECK(RandomHex(16).size() == 32);
  CHECK(RandomHex(16) != RandomHex(16));
}
