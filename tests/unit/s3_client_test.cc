#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/cas/s3_objects.h"
#include "tests/unit/fake_http.h"

using namespace rt;

namespace {

constexpr Millis kNow = 1'700'000'000'000;  // Tue, 14 Nov 2023 22:13:20 GMT

void Refuse(httplib::Response& response, int status, const std::string& code,
            const std::string& more = "") {
  response.status = status;
  response.set_content("<?xml version=\"1.0\"?><Error><Code>" + code + "</Code>" +
                           "<Message>m</Message>" + more + "</Error>", "application/xml");
}

struct House {
  FakeHttp server;
  HttpClient http;
  CredentialChain chain;
  S3Client client;
  S3Objects objects;

  explicit House(FakeHttp::Answer answer, S3Sizes sizes = {})
      : server(std::move(answer)),
        chain(http, {{"AWS_ACCESS_KEY_ID", "AKID"}, {"AWS_SECRET_ACCESS_KEY", "hush"}}),
        client(http, chain, *ParseS3Location("s3://bucket/a/prefix", server.url(), "", {}),
               [] { return kNow; }),
        objects(client, sizes) {}
  std::string TimeOf(size_t request) {
    return server.requests().at(request).get_header_value("x-amz-date");
  }
};

}  // namespace

TEST_CASE("S3: locations, endpoints and regions") {
  auto location = ParseS3Location("s3://lab-data/a/b/", "", "", {});
  REQUIRE(location.ok());
  CHECK(location->bucket == "lab-data");
  CHECK(location->prefix == "a/b");
  CHECK(location->region == "us-east-1");
  CHECK(location->endpoint.empty());
  auto other = ParseS3Location("s3://lab", "", "", {{"AWS_ENDPOINT_URL", "http://x:1"},
                                                    {"AWS_ENDPOINT_URL_S3", "https://y:2/"},
                                                    {"AWS_DEFAULT_REGION", "eu-west-1"}});
  CHECK(other->prefix.empty());
  CHECK(other->endpoint == "https://y:2");
  CHECK(other->region == "eu-west-1");
  CHECK(ParseS3Location("s3://lab", "http://z", "", {{"AWS_ENDPOINT_URL", "http://x"}})->endpoint ==
        "http://z");
  for (const char* odd : {"lab", "s3://", "s3://a", "s3://b_k/../x", "s3://buc ket", "s3:///x",
                          "http://bucket/x"})
    CHECK(absl::IsInvalidArgument(ParseS3Location(odd, "", "", {}).status()));
  for (const char* odd : {"minio:9000", "ftp://x", "http://user:pw@x", "http://x/path"})
    CHECK(absl::IsInvalidArgument(ParseS3Location("s3://lab", odd, "", {}).status()));
}

TEST_CASE("S3: a wrong clock is corrected from the server's, once, and stays so") {
  House house([](const httplib::Request& request, httplib::Response& response) {
    response.set_header("Date", "Tue, 14 Nov 2023 23:13:25 GMT");
    if (request.get_header_value("x-amz-date") == "20231114T221320Z")
      Refuse(response, 403, "RequestTimeTooSkewed");
  });
  CHECK(house.objects.Put("k", "v").ok());
  CHECK(house.objects.Put("k", "v").ok());
  CHECK(house.server.requests().size() == 3);
  CHECK(house.TimeOf(0) == "20231114T221320Z");
  CHECK(house.TimeOf(1) == "20231114T231325Z");
  CHECK(house.TimeOf(2) == "20231114T231325Z");
}

TEST_CASE("S3: a refusal that no healing helps comes back, and is asked for a bounded time") {
  House house([](const httplib::Request&, httplib::Response& response) {
    Refuse(response, 400, "ExpiredToken");
  });
  absl::Status status = house.objects.Put("k", "v");
  CHECK(absl::IsPermissionDenied(status));
  CHECK(house.server.requests().size() == 4);
  CHECK(status.ToString().find("hush") == std::string::npos);
}

TEST_CASE("S3: a bucket elsewhere is signed for its own region") {
  House house([](const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value("Authorization").find("/eu-central-1/s3/") == std::string::npos)
      Refuse(response, 400, "AuthorizationHeaderMalformed", "<Region>eu-central-1</Region>");
  });
  CHECK(house.objects.Put("k", "v").ok());
  CHECK(house.objects.Put("k", "v").ok());
  CHECK(house.server.requests().size() == 3);
}

TEST_CASE("S3: a redirect is not followed with credentials") {
  FakeHttp stranger([](const httplib::Request&, httplib::Response&) {});
  House house([&](const httplib::Request&, httplib::Response& response) {
    response.set_redirect(stranger.url() + "/k", 307);
  });
  CHECK(!house.objects.Get("k").ok());
  CHECK(stranger.requests().empty());
}

TEST_CASE("S3: a completed upload that turns out to have failed has, and its parts are dropped") {
  std::string complete = "<CompleteMultipartUploadResult/>";
  auto answer = [&](const httplib::Request& request, httplib::Response& response) {
    if (request.has_param("uploads")) {
      response.set_content("<X><UploadId>u&amp;1</UploadId></X>", "text/xml");
    } else if (request.method == "PUT") {
      response.set_header("ETag", "\"t" + request.get_param_value("partNumber") + "\"");
    } else if (request.method == "POST") {
      response.set_content(complete, "text/xml");
    } else {
      response.status = request.method == "DELETE" ? 204 : 404;
    }
  };
  House house(answer, {.multipart_above = 10, .part_bytes = 8});
  REQUIRE(house.objects.Put("k", std::string(20, 'x')).ok());
  auto requests = house.server.requests();
  CHECK(requests.size() == 5);  // Begin, three parts, complete.
  CHECK(requests.back().get_param_value("uploadId") == "u&1");
  CHECK(requests.back().body.find("<PartNumber>3</PartNumber><ETag>\"t3\"</ETag>") !=
        std::string::npos);
  complete = "<?xml?>\n<Error><Code>InternalError</Code><Message>later</Message></Error>";
  CHECK(absl::IsUnavailable(house.objects.Put("k", std::string(20, 'x'))));
  CHECK(house.server.requests().back().method == "DELETE");
  CHECK(house.server.requests().back().get_param_value("uploadId") == "u&1");
  complete = "<Error><Code>PreconditionFailed</Code></Error>";
  CHECK(absl::IsAlreadyExists(house.objects.PutIfAbsent("k", std::string(20, 'x'))));
}

TEST_CASE("S3: what the answers mean") {
  int status = 0;
  std::string code;
  House house([&](const httplib::Request&, httplib::Response& response) {
    Refuse(response, status, code);
  });
  auto get = [&](int with_status, std::string with_code) {
    status = with_status;
    code = std::move(with_code);
    return house.objects.Get("k").status();
  };
  CHECK(absl::IsUnavailable(get(503, "SlowDown")));
  CHECK(absl::IsUnavailable(get(500, "InternalError")));
  CHECK(absl::IsUnavailable(get(409, "ConditionalRequestConflict")));
  CHECK(absl::IsUnavailable(get(429, "")));
  CHECK(absl::IsNotFound(get(404, "NoSuchKey")));
  CHECK(absl::IsFailedPrecondition(get(404, "NoSuchBucket")));
  CHECK(absl::IsResourceExhausted(get(507, "XMinioStorageFull")));
  CHECK(absl::IsUnimplemented(get(501, "NotImplemented")));
  absl::Status denied = get(403, "AccessDenied");
  CHECK(absl::IsPermissionDenied(denied));
  CHECK(HintOf(denied).find("s3:PutObject") != std::string::npos);
  CHECK(HintOf(denied).find("bucket/a/prefix/*") != std::string::npos);
}

TEST_CASE("S3: a list that is no list is an error, not an empty bucket") {
  House house([](const httplib::Request&, httplib::Response& response) {
    response.set_content("<html>welcome</html>", "text/html");
  });
  CHECK(absl::IsDataLoss(house.objects.List("", "", 10).status()));
}

TEST_CASE("S3: lists skip what others put there, page on, and decode keys") {
  House house([](const httplib::Request& request, httplib::Response& response) {
    const bool second = request.has_param("continuation-token");
    auto entry = [](const std::string& key) {
      return "<Contents><Key>a%2Fprefix/" + key + "</Key><LastModified>2023-11-14T22:13:20.000Z"
             "</LastModified><Size>7</Size></Contents>";
    };
    response.set_content(
        "<ListBucketResult xmlns=\"x\"><IsTruncated>" + std::string(second ? "false" : "true") +
            "</IsTruncated>" +
            (second ? entry("c%2Fd")
                    : "<NextContinuationToken>1/&lt;</NextContinuationToken>" +
                          entry("a+folder%2F") + entry("b")) +
            "</ListBucketResult>", "application/xml");
  });
  auto listed = house.objects.List("", "", 10);
  REQUIRE(listed.ok());
  REQUIRE(listed->size() == 2);
  CHECK((*listed)[0].key == "b");
  CHECK((*listed)[1].key == "c/d");
  CHECK((*listed)[1].bytes == 7);
  CHECK((*listed)[1].changed_at == kNow);
  CHECK(house.server.requests().at(1).get_param_value("continuation-token") == "1/<");
}
