#include <catch2/catch.hpp>

#include "common/aws/credential_chain.h"
#include "common/base/status.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "tests/unit/fake_http.h"

using namespace rt;

namespace {

constexpr Millis kNow = 1'700'000'000'000;  // 2023-11-14T22:13:20Z
constexpr char kKeys[] =
    R"({"Code":"Success","AccessKeyId":"AKID","SecretAccessKey":"hush","Token":"session",)"
    R"("Expiration":"2023-11-15T04:13:20Z"})";

struct Home {
  TempDir dir{"aws"};
  const std::string& path = dir.path();
  void Write(const std::string& name, const std::string& text) const {
    REQUIRE(EnsureDirectory(path + "/.aws").ok());
    REQUIRE(WriteFileAtomic(path + "/" + name, text).ok());
  }
};

// Without the machine's metadata server, which may exist where the test runs.
Environment With(Environment environment) {
  environment.emplace("AWS_EC2_METADATA_DISABLED", "true");
  return environment;
}

// Answers as IMDSv2 does: a token first, which every other call must bring.
FakeHttp::Answer Machine(std::string keys) {
  return [keys](const httplib::Request& request, httplib::Response& response) {
    if (request.path == "/latest/api/token" && request.method == "PUT" &&
        request.get_header_value("X-aws-ec2-metadata-token-ttl-seconds") == "21600") {
      response.set_content("t0ken", "text/plain");
    } else if (request.get_header_value("X-aws-ec2-metadata-token") != "t0ken") {
      response.status = 401;
    } else if (request.path == "/latest/meta-data/iam/security-credentials/") {
      response.set_content("role-of-node\n", "text/plain");
    } else if (request.path == "/latest/meta-data/iam/security-credentials/role-of-node") {
      response.set_content(keys, "application/json");
    } else {
      response.status = 404;
    }
  };
}

}  // namespace

TEST_CASE("credentials: explicit ones go before the environment's") {
  HttpClient http;
  const Environment environment = With(
      {{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "S"}, {"AWS_SESSION_TOKEN", "T"}});
  CredentialChain chain(http, environment);
  CHECK(chain.Get(kNow)->access_key_id == "A");
  CHECK(chain.Get(kNow)->session_token == "T");
  CredentialChain given(http, environment, AwsCredentials{"B", "S"});
  CHECK(given.Get(kNow)->access_key_id == "B");
}

TEST_CASE("credentials: half a key in the environment is said to be half a key") {
  HttpClient http;
  CredentialChain chain(http, With({{"AWS_ACCESS_KEY_ID", "A"}}));
  auto got = chain.Get(kNow);
  CHECK(absl::IsPermissionDenied(got.status()));
  CHECK(MessageOf(got.status()).find("AWS_SECRET_ACCESS_KEY is missing") != std::string::npos);
}

TEST_CASE("credentials: none anywhere says where they could be") {
  HttpClient http;
  CredentialChain chain(http, With({{"HOME", "/nonexistent"}}));
  auto got = chain.Get(kNow);
  CHECK(absl::IsPermissionDenied(got.status()));
  CHECK(HintOf(got.status()).find("~/.aws/credentials") != std::string::npos);
}

TEST_CASE("credentials: profiles, in both files, with comments and nested settings") {
  Home home;
  home.Write(".aws/credentials",
             "# mine\n[default]\naws_access_key_id = D\naws_secret_access_key=s = /+\n\n"
             "[lab]\naws_access_key_id=L\naws_secret_access_key=l\naws_session_token=t\n");
  home.Write(".aws/config",
             "[default]\nregion = eu-west-1\ns3 =\n  max_concurrent_requests = 20\n"
             "[profile lab]\nregion=eu-north-1\nendpoint_url = http://minio:9000\n");
  HttpClient http;
  CredentialChain chain(http, With({{"HOME", home.path}}));
  CHECK(chain.Get(kNow)->access_key_id == "D");
  CHECK(chain.Get(kNow)->secret_access_key == "s = /+");
  CredentialChain lab(http, With({{"HOME", home.path}, {"AWS_PROFILE", "lab"}}));
  CHECK(lab.Get(kNow)->session_token == "t");
  auto profile = ReadAwsProfile({{"HOME", home.path}, {"AWS_PROFILE", "lab"}});
  CHECK((*profile)["region"] == "eu-north-1");
  CHECK((*profile)["endpoint_url"] == "http://minio:9000");
  CHECK((*ReadAwsProfile({{"HOME", home.path}}))["region"] == "eu-west-1");
  CredentialChain unknown(http, With({{"HOME", home.path}, {"AWS_PROFILE", "no-such"}}));
  CHECK(MessageOf(unknown.Get(kNow).status()).find("no-such") != std::string::npos);
}

TEST_CASE("credentials: a credential_process is run without a shell, also when it speaks beside") {
  Home home;
  home.Write("program", std::string("#!/bin/sh\necho \"warning: $1\" >&2\necho '") + kKeys + "'\n");
  REQUIRE(::chmod((home.path + "/program").c_str(), 0700) == 0);
  home.Write(".aws/config",
             "[default]\ncredential_process = " + home.path + "/program \"one ; two $(three)\"\n");
  HttpClient http;
  CredentialChain chain(http, With({{"HOME", home.path}}));
  CHECK(chain.Get(kNow)->access_key_id == "AKID");
  home.Write("program", "#!/bin/sh\necho hush; exit 3\n");
  REQUIRE(::chmod((home.path + "/program").c_str(), 0700) == 0);
  CredentialChain failing(http, With({{"HOME", home.path}}));
  auto got = failing.Get(kNow);
  CHECK(MessageOf(got.status()).find("exit code 3") != std::string::npos);
  CHECK(got.status().ToString().find("hush") == std::string::npos);
}

TEST_CASE("credentials: what rt does not know names the way round") {
  Home home;
  home.Write(".aws/config", "[default]\nsso_session = lab\n");
  HttpClient http;
  CredentialChain chain(http, With({{"HOME", home.path}}));
  auto got = chain.Get(kNow);
  CHECK(absl::IsUnimplemented(got.status()));
  CHECK(HintOf(got.status()).find("export-credentials") != std::string::npos);
}

TEST_CASE("credentials: a web identity is changed for keys at STS") {
  Home home;
  home.Write("token", "the.jwt\n");
  FakeHttp sts([](const httplib::Request& request, httplib::Response& response) {
    if (request.body.find("WebIdentityToken=the.jwt&") == std::string::npos &&
        !request.body.ends_with("WebIdentityToken=the.jwt")) {
      response.status = 400;
      response.set_content(
          "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>no"
          "</Message></Error></ErrorResponse>",
          "text/xml");
      return;
    }
    response.set_content(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
        "<SessionToken>s&amp;t</SessionToken><SecretAccessKey>k</SecretAccessKey>"
        "<Expiration>2023-11-15T04:13:20Z</Expiration><AccessKeyId>W</AccessKeyId></Credentials>"
        "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
        "text/xml");
  });
  Environment environment = With({{"AWS_WEB_IDENTITY_TOKEN_FILE", home.path + "/token"},
                                  {"AWS_ROLE_ARN", "arn:aws:iam::1:role/x"},
                                  {"AWS_ENDPOINT_URL_STS", sts.url()}});
  HttpClient http;
  CredentialChain chain(http, environment);
  auto got = chain.Get(kNow);
  REQUIRE(got.ok());
  CHECK(got->access_key_id == "W");
  CHECK(got->session_token == "s&t");
  CHECK(got->expires_at == kNow + 6 * 3'600'000);
  CHECK(sts.requests().at(0).body.find("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx") !=
        std::string::npos);
  home.Write("token", "another");
  CredentialChain refused(http, environment);
  CHECK(MessageOf(refused.Get(kNow).status()).find("InvalidIdentityToken") != std::string::npos);
}

TEST_CASE("credentials: the container's endpoint, with its token, and no stranger's") {
  FakeHttp container([](const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value("Authorization") != "tok" || request.path != "/creds") {
      response.status = 403;
      return;
    }
    response.set_content(kKeys, "application/json");
  });
  Environment environment =
      With({{"HOME", "/nonexistent"},
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url() + "/creds"},
            {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "tok"}});
  HttpClient http;
  CredentialChain chain(http, environment);
  CHECK(chain.Get(kNow)->session_token == "session");
  for (const char* url : {"http://example.org/creds", "http://127.0.0.1.example.org/creds",
                          "http://169.254.170.22/x", "http://169.254.170.2@example.org/"}) {
    environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
    CredentialChain stranger(http, environment);
    CHECK(absl::IsPermissionDenied(stranger.Get(kNow).status()));
  }
}

TEST_CASE("credentials: the machine's role, asked for anew before it expires and when refused") {
  FakeHttp machine(Machine(kKeys));
  HttpClient http;
  CredentialChain chain(
      http, {{"HOME", "/nonexistent"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.url() + "/"}});
  REQUIRE(chain.Get(kNow).ok());
  CHECK(chain.Get(kNow)->access_key_id == "AKID");
  CHECK(machine.requests().size() == 3);  // Token, role, keys; then from memory.
  const Millis expires_at = chain.Get(kNow)->expires_at;
  REQUIRE(chain.Get(expires_at - 301'000).ok());
  CHECK(machine.requests().size() == 3);
  REQUIRE(chain.Get(expires_at - 299'000).ok());
  CHECK(machine.requests().size() == 6);
  chain.Expire();
  REQUIRE(chain.Get(kNow).ok());
  CHECK(machine.requests().size() == 9);
}

TEST_CASE("credentials: those that still hold are used on while a refresh fails") {
  std::string keys = kKeys;
  FakeHttp machine([&keys](const httplib::Request& request, httplib::Response& response) {
    Machine(keys)(request, response);
  });
  HttpClient http;
  CredentialChain chain(
      http, {{"HOME", "/nonexistent"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.url()}});
  const Millis expires_at = chain.Get(kNow)->expires_at;
  keys = "{}";
  CHECK(chain.Get(expires_at - 1'000)->access_key_id == "AKID");
  CHECK(!chain.Get(expires_at + 1'000).ok());
}
