#include "common/provider/aws/ec2_client.h"

#include <catch2/catch.hpp>

#include "common/aws/sigv4.h"
#include "common/base/status.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/node_provider.h"
#include "tests/unit/fake_http.h"

using namespace rt;

namespace {

constexpr char kSecret[] = "not-to-be-shown";

void Refuse(httplib::Response& response, int status, const std::string& code,
            const std::string& message = "why") {
  response.status = status;
  response.set_content("<Response><Errors><Error><Code>" + code + "</Code><Message>" + message +
                           "</Message></Error></Errors><RequestID>r</RequestID></Response>",
                       "text/xml");
}

// A client of a service of the test; waits take no time.
struct Ec2 {
  FakeHttp server;
  HttpClient http;
  CredentialChain chain;
  std::vector<Millis> waits;
  Ec2Client client;
  explicit Ec2(FakeHttp::Answer answer, std::function<Millis()> clock = nullptr)
      : server(std::move(answer)),
        chain(http, {}, AwsCredentials{"AKID", kSecret, "session-token"}),
        client(http, chain, {"us-west-2", server.url()},
               {.clock = std::move(clock), .sleep = [this](Millis ms) { waits.push_back(ms); }}) {}
  // What the service was asked `index`-th.
  std::string Form(size_t index, const std::string& name) {
    return server.requests().at(index).get_param_value(name.c_str());
  }
};

ProviderError ClassOf(const std::string& code, int status = 400) {
  return ProviderErrorOf(MakeEc2Error("RunInstances", status, code, "m"));
}

}  // namespace

TEST_CASE("ec2 client: a call is a signed form, and its answer a tree") {
  Ec2 ec2([](const httplib::Request&, httplib::Response& response) {
    response.set_content("<R><a>1</a></R>", "text/xml");
  });
  const auto answer = ec2.client.Call("DescribeVpcs", {{"Filter.1.Name", "a b&c=d"}});
  REQUIRE(answer.ok());
  CHECK(answer->Text("a") == "1");
  const httplib::Request asked = ec2.server.requests().at(0);
  CHECK(asked.method == "POST");
  CHECK(asked.path == "/");
  CHECK(ec2.Form(0, "Action") == "DescribeVpcs");
  CHECK(ec2.Form(0, "Version") == "2016-11-15");
  CHECK(ec2.Form(0, "Filter.1.Name") == "a b&c=d");
  const std::string authorization = asked.get_header_value("Authorization");
  CHECK(authorization.find("/us-west-2/ec2/aws4_request") != std::string::npos);
  CHECK(asked.get_header_value("X-Amz-Security-Token") == "session-token");
}

TEST_CASE("ec2 client: throttling, errors of the service and cut answers are asked again") {
  for (const char* kind : {"throttled", "internal", "html", "cut"}) {
    INFO(kind);
    int calls = 0;
    Ec2 ec2([&](const httplib::Request&, httplib::Response& response) {
      ++calls;
      if (calls > 3) return response.set_content("<R/>", "text/xml");
      if (kind == std::string("throttled")) return Refuse(response, 503, "RequestLimitExceeded");
      if (kind == std::string("internal")) return Refuse(response, 500, "InternalError");
      if (kind == std::string("cut")) return response.set_content("<R><a>", "text/xml");
      response.status = 502;
      response.set_content("<html>bad gateway", "text/html");
    });
    CHECK(ec2.client.Call("DescribeVpcs", {}).ok());
    CHECK(calls == 4);
    REQUIRE(ec2.waits.size() == 3);
    for (size_t i = 0; i < 3; ++i) CHECK(ec2.waits[i] < limits::kEc2BackoffFirst << i);
    const auto requests = ec2.server.requests();
    CHECK(requests[0].body == requests[3].body);  // Token included: it makes nothing twice.
  }
}

TEST_CASE("ec2 client: an end to repeating, and then nobody knows") {
  Ec2 ec2([](const httplib::Request&, httplib::Response& response) {
    Refuse(response, 503, "RequestLimitExceeded");
  });
  const absl::Status status = ec2.client.Call("RunInstances", {}).status();
  CHECK(ProviderErrorOf(status) == ProviderError::kRetryLater);
  CHECK(ec2.server.requests().size() == static_cast<size_t>(limits::kEc2CallsMax));
}

TEST_CASE("ec2 client: what can never succeed is asked once") {
  for (const char* code : {"InvalidParameterValue", "InsufficientInstanceCapacity",
                           "VcpuLimitExceeded", "UnauthorizedOperation"}) {
    Ec2 ec2(
        [&](const httplib::Request&, httplib::Response& response) { Refuse(response, 400, code); });
    const absl::Status status = ec2.client.Call("RunInstances", {}).status();
    CHECK(Ec2CodeOf(status) == code);
    CHECK(ec2.server.requests().size() == 1);
  }
}

TEST_CASE("ec2 client: errors have their class") {
  using E = ProviderError;
  for (const char* code :
       {"InsufficientInstanceCapacity", "SpotMaxPriceTooLow", "InsufficientFreeAddressesInSubnet"})
    CHECK(ClassOf(code) == E::kCapacity);
  CHECK(ClassOf("InsufficientInstanceCapacity", 500) == E::kCapacity);
  for (const char* code : {"VcpuLimitExceeded", "InstanceLimitExceeded",
                           "MaxSpotInstanceCountExceeded", "SecurityGroupLimitExceeded"})
    CHECK(ClassOf(code) == E::kQuota);
  for (const char* code : {"RequestLimitExceeded", "Throttling", "InternalError", "Unavailable"})
    CHECK(ClassOf(code, 503) == E::kRetryLater);
  for (const char* code : {"InvalidParameterValue", "InvalidAMIID.NotFound", "AuthFailure",
                           "UnauthorizedOperation", "Unsupported", "SomethingNew"})
    CHECK(ClassOf(code) == E::kBadConfiguration);
  CHECK(ClassOf("", 403) == E::kRetryLater);
  CHECK(ClassOf("SomethingNew", 500) == E::kRetryLater);
  for (const char* code : {"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded",
                           "VcpuLimitExceeded", "Unsupported"})
    CHECK(MayBeHadElsewhere(MakeEc2Error("RunInstances", 400, code, "")));
  for (const char* code : {"RequestLimitExceeded", "InvalidAMIID.NotFound", "AuthFailure", ""})
    CHECK_FALSE(MayBeHadElsewhere(MakeEc2Error("RunInstances", 400, code, "")));
}

TEST_CASE("ec2 client: no error shows a secret, a parameter or a control character") {
  Ec2 ec2([](const httplib::Request&, httplib::Response& response) {
    Refuse(response, 401, "AuthFailure", "bad\x1b[31m" + std::string(5'000, 'x'));
  });
  const absl::Status status = ec2.client.Call("RunInstances", {{"UserData", "c2VjcmV0"}}).status();
  const std::string text = status.ToString();
  CHECK(text.find(kSecret) == std::string::npos);
  CHECK(text.find("c2VjcmV0") == std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(MessageOf(status).size() < 700);
  CHECK(HintOf(status).find("access key") != std::string::npos);
}

TEST_CASE("ec2 client: a wrong clock is learnt from the answer") {
  const Millis now = 1'700'000'000'000;  // Tue, 14 Nov 2023 22:13:20 GMT
  Ec2 ec2(
      [](const httplib::Request& request, httplib::Response& response) {
        response.set_header("Date", "Tue, 14 Nov 2023 22:13:20 GMT");
        if (request.get_header_value("X-Amz-Date") != "20231114T221320Z")
          return Refuse(response, 400, "RequestExpired");
        response.set_content("<R/>", "text/xml");
      },
      [now] { return now - 3'600'000; });
  CHECK(ec2.client.Call("DescribeVpcs", {}).ok());
  CHECK(ec2.waits.empty());
}

TEST_CASE("ec2 client: a list is read to its last page") {
  Ec2 ec2([](const httplib::Request& request, httplib::Response& response) {
    const std::string token = request.get_param_value("NextToken");
    const std::string next = token.empty() ? "t&amp;1" : token == "t&1" ? "t2" : "";
    response.set_content(
        "<R><set><item><id>" + token + "</id></item></set><nextToken>" + next + "</nextToken></R>",
        "text/xml");
  });
  Ec2Parameters parameters;
  AddEc2Filter(parameters, "a", {"1", "2"});
  AddEc2Filter(parameters, "b", {"3"});
  const auto items = ec2.client.Pages("DescribeThings", "set", parameters);
  REQUIRE(items.ok());
  REQUIRE(items->size() == 3);
  CHECK((*items)[2].Text("id") == "t2");
  CHECK(ec2.Form(2, "Filter.1.Value.2") == "2");
  CHECK(ec2.Form(2, "Filter.2.Name") == "b");
}

TEST_CASE("ec2 client: a list without an end is an error") {
  Ec2 ec2([](const httplib::Request&, httplib::Response& response) {
    response.set_content("<R><set/><nextToken>more</nextToken></R>", "text/xml");
  });
  CHECK(absl::IsOutOfRange(ec2.client.Pages("DescribeThings", "set", {}).status()));
}

TEST_CASE("ec2 client: without credentials it is the configuration that is wrong") {
  HttpClient http;
  CredentialChain chain(http, {{"AWS_EC2_METADATA_DISABLED", "true"}});
  Ec2Client client(http, chain, {"us-west-2", "http://127.0.0.1:1"});
  const absl::Status status = client.Call("DescribeVpcs", {}).status();
  CHECK(ProviderErrorOf(status) == ProviderError::kBadConfiguration);
  CHECK(HintOf(status).find("AWS_ACCESS_KEY_ID") != std::string::npos);
}
