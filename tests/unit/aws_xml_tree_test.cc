#include <catch2/catch.hpp>

#include "common/aws/endpoint.h"
#include "common/aws/sigv4.h"
#include "common/aws/xml_tree.h"
#include "common/base/status.h"

using namespace rt;

namespace {

constexpr char kAnswer[] = R"(<?xml version="1.0" encoding="UTF-8"?>
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>r-1</requestId>
  <reservationSet>
    <item><instancesSet><item><instanceId>i-1</instanceId>
      <tagSet><item><key>Name</key><value>a &amp; b &lt;c&gt;</value></item></tagSet>
    </item></instancesSet></item>
    <item/>
  </reservationSet>
  <nextToken/>
</DescribeInstancesResponse>)";

}  // namespace

TEST_CASE("xml tree: elements are found by path, and entities are undone") {
  const auto root = ParseXml(kAnswer);
  REQUIRE(root.ok());
  CHECK(root->name == "DescribeInstancesResponse");
  CHECK(root->Text("requestId") == "r-1");
  REQUIRE(root->Items("reservationSet").size() == 2);
  const XmlNode& one = root->Items("reservationSet")[0];
  CHECK(one.Text("instancesSet/item/instanceId") == "i-1");
  CHECK(one.Text("instancesSet/item/tagSet/item/value") == "a & b <c>");
  CHECK(root->Items("reservationSet")[1].children.empty());
  CHECK(root->Text("nextToken").empty());
  CHECK(root->Find("nothing/at/all") == nullptr);
  CHECK(root->Items("nothing").empty());
}

TEST_CASE("xml tree: an answer that was cut off is an error, wherever the cut is") {
  const std::string whole = kAnswer;
  const size_t end = whole.rfind('>');
  for (size_t size = 0; size < end; ++size) {
    INFO(size);
    CHECK_FALSE(ParseXml(std::string_view(whole).substr(0, size)).ok());
  }
  CHECK(ParseXml(whole).ok());
}

TEST_CASE("xml tree: a document type defines no entity") {
  const auto root =
      ParseXml(R"(<!DOCTYPE a [<!ENTITY lol "lol"><!ENTITY x SYSTEM "file:///etc/passwd">)"
               R"(<!ENTITY lol2 "&lol;&lol;&lol;">]><a><b>&lol2;</b><c>&x;</c></a>)");
  REQUIRE(root.ok());
  CHECK(root->Text("b") == "&lol2;");
  CHECK(root->Text("c") == "&x;");
}

TEST_CASE("xml tree: depth, elements and length are bounded") {
  std::string deep, many = "<a>";
  for (int i = 0; i < 400'000; ++i) deep += "<a>";
  CHECK(MessageOf(ParseXml(deep + "x").status()).find("XML") != std::string::npos);
  for (int i = 0; i < 100; ++i) deep = "<a>" + (i == 0 ? "" : deep) + "</a>";
  CHECK(MessageOf(ParseXml(deep).status()).find("nested too deeply") != std::string::npos);
  for (int i = 0; i < 1'000'001; ++i) many += "<b/>";
  CHECK(MessageOf(ParseXml(many + "</a>").status()).find("too many") != std::string::npos);
  const std::string huge = "<a>" + std::string(33 << 20, 'x') + "</a>";
  CHECK(MessageOf(ParseXml(huge).status()).find("too long") != std::string::npos);
  CHECK_FALSE(ParseXml("").ok());
  CHECK_FALSE(ParseXml("{\"json\":1}").ok());
  CHECK_FALSE(ParseXml(std::string_view("\0\0\0", 3)).ok());
}

TEST_CASE("aws endpoint: what is given comes before the service's variable, and that before all") {
  Environment environment = {{"AWS_ENDPOINT_URL", "http://all:1/"}, {"AWS_REGION", "eu-west-1"}};
  CHECK(FindAwsEndpoint({.service = "EC2"}, environment)->url == "http://all:1");
  CHECK(FindAwsEndpoint({.service = "EC2"}, environment)->region == "eu-west-1");
  environment["AWS_ENDPOINT_URL_EC2"] = "http://ec2:2";
  CHECK(FindAwsEndpoint({.service = "EC2"}, environment)->url == "http://ec2:2");
  CHECK(FindAwsEndpoint({.service = "S3"}, environment)->url == "http://all:1");
  CHECK(FindAwsEndpoint({.service = "EC2", .url = "https://x", .region = "us-west-2"}, environment)
            ->region == "us-west-2");
  CHECK(FindAwsEndpoint({.service = "EC2", .region_otherwise = "us-west-2"}, {})->region ==
        "us-west-2");
  for (const char* odd : {"evil.example/", "us west", "US-WEST-2", "a@b"})
    CHECK_FALSE(FindAwsEndpoint({.service = "EC2", .region = odd}, {}).ok());
  for (const char* odd : {"ftp://x", "https://a/b", "https://user@host"})
    CHECK_FALSE(FindAwsEndpoint({.service = "EC2", .url = odd}, {}).ok());
  CHECK(HostOfUrl("https://a.example:443") == "a.example");
  CHECK(HostOfUrl("http://127.0.0.1:5000") == "127.0.0.1:5000");
}

TEST_CASE("xml tree: a text is found at any depth, and of what is no XML there is none") {
  const XmlNode error = ParseXmlOrNothing(
      " <ErrorResponse><Error><Keys>no</Keys><Code x='1'>a&lt;b&amp;amp;</Code></Error>"
      "</ErrorResponse>");
  CHECK(error.AnyText("Code") == "a<b&amp;");
  CHECK(error.AnyText("Key").empty());
  CHECK(ParseXmlOrNothing("<Code>x</Code>").AnyText("Code") == "x");
  for (const char* odd : {"<Key", "<Key>", "<Key>a</Ke", "", "<Key a"}) {
    CHECK(ParseXmlOrNothing(odd).name.empty());
    CHECK(ParseXmlOrNothing(odd).AnyText("Key").empty());
  }
}

TEST_CASE("percent encoding: what is no byte stays as it is") {
  CHECK(PercentDecode("a%2Fb%zz%4") == "a/b%zz%4");
}
