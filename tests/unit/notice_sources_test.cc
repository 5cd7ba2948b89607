#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <map>

#include "common/base/status.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "tests/unit/fake_http.h"
#include "worker/notice/aws.h"
#include "worker/notice/azure.h"
#include "worker/notice/file.h"
#include "worker/notice/gcp.h"
#include "worker/notice/notice_choice.h"

using namespace rt;
using namespace rt::worker;

namespace {

constexpr Millis kNow = 1'700'000'000'000;  // Tue, 14 Nov 2023 22:13:20 GMT

// Answers what it was given for a path, and 404 for the rest.
struct Pages {
  std::map<std::string, std::string> pages;
  void operator()(const httplib::Request& request, httplib::Response& response) const {
    auto page = pages.find(request.path);
    response.status = page == pages.end() ? 404 : 200;
    if (page != pages.end()) response.set_content(page->second, "text/plain");
  }
};

const char kAction[] = "/latest/meta-data/spot/instance-action";
const char kRebalance[] = "/latest/meta-data/events/recommendations/rebalance";
const char kAwsToken[] = "/latest/api/token";

}  // namespace

TEST_CASE("AWS: 404 is no notice, an instance-action is one with a deadline") {
  Pages pages{{{kAwsToken, "secret"}}};
  FakeHttp server([&](auto& request, auto& response) { pages(request, response); });
  AwsNotices aws(server.url(), true);
  CHECK(*aws.Look(kNow) == std::nullopt);
  CHECK(aws.pause() <= 250);  // A quarter of a second is lost at most.
  pages.pages[kRebalance] = R"({"noticeTime":"2023-11-14T22:13:00Z"})";
  CHECK(*aws.Look(kNow + 250) == std::nullopt);  // It is looked for once a second.
  CHECK(*aws.Look(kNow + 1'000) == Notice{"rebalance recommendation", 0});
  CHECK(*aws.Look(kNow + 1'250) == Notice{"rebalance recommendation", 0});
  pages.pages[kAction] = R"({"action":"terminate","time":"2023-11-14T22:15:20Z"})";
  CHECK(*aws.Look(kNow + 1'500) == Notice{"spot interruption (terminate)", kNow + 120'000});
  const auto requests = server.requests();
  REQUIRE(requests.size() >= 3);
  CHECK(requests[0].method == "PUT");
  CHECK(requests[0].get_header_value("X-aws-ec2-metadata-token-ttl-seconds") == "21600");
  CHECK(requests[1].get_header_value("X-aws-ec2-metadata-token") == "secret");
  AwsNotices only_action(server.url(), false);
  pages.pages.erase(kAction);
  CHECK(*only_action.Look(kNow) == std::nullopt);
}

TEST_CASE("AWS: a token that is refused is asked for anew, once; a server without one fails") {
  int tokens = 0;
  bool refuses_all = false;
  FakeHttp server([&](const httplib::Request& request, httplib::Response& response) {
    if (request.path == kAwsToken) {
      response.set_content("token-" + std::to_string(++tokens), "text/plain");
    } else {
      const bool is_known =
          !refuses_all && request.get_header_value("X-aws-ec2-metadata-token") == "token-2";
      response.status = is_known ? 404 : 401;
    }
  });
  AwsNotices aws(server.url(), false);
  CHECK(*aws.Look(kNow) == std::nullopt);
  CHECK(tokens == 2);
  refuses_all = true;
  CHECK_FALSE(aws.Look(kNow).ok());
  CHECK(tokens == 3);
  FakeHttp none([](const httplib::Request&, httplib::Response& response) {
    response.status = 403;
  });
  CHECK_FALSE(AwsNotices(none.url(), true).Look(kNow).ok());
}

TEST_CASE("AWS: what is broken is an error, never a notice") {
  for (const char* body : {"", "{", "[]", "{}", R"({"action":"stop"})",
                           R"({"action":"stop","time":"soon"})", "<html></html>"}) {
    Pages pages{{{kAwsToken, "secret"}, {kAction, body}}};
    FakeHttp server(pages);
    CHECK_FALSE(AwsNotices(server.url(), true).Look(kNow).ok());
  }
  CHECK_FALSE(AwsNotices("http://127.0.0.1:1", true).Look(kNow).ok());
}

TEST_CASE("GCP: TRUE is a notice, counted from when it was first heard; then a long poll") {
  std::string value = "FALSE";
  FakeHttp server([&](const httplib::Request&, httplib::Response& response) {
    response.set_header("Metadata-Flavor", "Google");
    response.set_header("ETag", "tag-" + value);
    response.set_content(value + "\n", "application/text");
  });
  GcpNotices gcp(server.url());
  CHECK(*gcp.Look(kNow) == std::nullopt);
  CHECK(*gcp.Look(kNow) == std::nullopt);
  value = "TRUE";
  CHECK(*gcp.Look(kNow + 1'000) == Notice{"preempted", kNow + 31'000});
  CHECK(*gcp.Look(kNow + 9'000) == Notice{"preempted", kNow + 31'000});
  const auto requests = server.requests();
  CHECK_FALSE(requests[0].has_param("wait_for_change"));
  CHECK(requests[1].get_param_value("wait_for_change") == "true");
  CHECK(requests[1].get_param_value("last_etag") == "tag-FALSE");
  CHECK(requests[1].get_header_value("Metadata-Flavor") == "Google");
  CHECK_FALSE(requests[3].has_param("wait_for_change"));
}

TEST_CASE("GCP: somebody else's answer is an error") {
  for (const char* body : {"TRUE", "", "<html>"}) {
    FakeHttp server([&](const httplib::Request&, httplib::Response& response) {
      if (std::string(body) != "TRUE") response.set_header("Metadata-Flavor", "Google");
      response.set_content(body, "text/plain");
    });
    CHECK_FALSE(GcpNotices(server.url()).Look(kNow).ok());
  }
}

TEST_CASE("Azure: the first event that ends this machine counts; a freeze does not") {
  const std::string body = R"({"DocumentIncarnation":3,"Events":[
    {"EventId":"a","EventType":"Freeze","Resources":["vm1"],"EventStatus":"Scheduled",
     "NotBefore":"Tue, 14 Nov 2023 22:13:30 GMT"},
    {"EventId":"b","EventType":"Terminate","Resources":["vm1"],"EventStatus":"Scheduled",
     "NotBefore":"Tue, 14 Nov 2023 22:18:20 GMT"},
    {"EventId":"c","EventType":"Preempt","Resources":["vm0","vm1"],"EventStatus":"Scheduled",
     "NotBefore":"Tue, 14 Nov 2023 22:13:50 GMT"},
    {"EventId":"d","EventType":"Preempt","Resources":["vm2"],"EventStatus":"Started",
     "NotBefore":""}]})";
  auto events = ParseAzureEvents(body, "vm1");
  REQUIRE(events.ok());
  CHECK(events->notice == Notice{"scheduled event: Preempt", kNow + 30'000});
  CHECK(events->ids == std::set<std::string>{"b", "c"});
  CHECK(ParseAzureEvents(body, "vm2")->notice == Notice{"scheduled event: Preempt", 0});
  CHECK(ParseAzureEvents(body, "vm3")->notice == std::nullopt);
  for (const char* broken : {"", "[]", "{}", R"({"Events":{}})", R"({"Events":[1]})"})
    CHECK_FALSE(ParseAzureEvents(broken, "vm1").ok());
}

TEST_CASE("Azure: asks for its name, sends the header, and acknowledges each event once") {
  Pages pages{{{"/metadata/instance/compute/name", "vm1\n"},
               {"/metadata/scheduledevents",
                R"({"Events":[{"EventId":"x","EventType":"Reboot","Resources":["vm1"],)"
                R"("EventStatus":"Scheduled","NotBefore":"Tue, 14 Nov 2023 22:28:20 GMT"}]})"}}};
  FakeHttp server(pages);
  AzureNotices azure(server.url());
  CHECK(*azure.Look(kNow) == Notice{"scheduled event: Reboot", kNow + 900'000});
  CHECK(azure.Acknowledge().ok());
  CHECK(azure.Acknowledge().ok());
  const auto requests = server.requests();
  REQUIRE(requests.size() == 3);
  CHECK(requests[1].get_header_value("Metadata") == "true");
  CHECK(requests[2].method == "POST");
  CHECK(requests[2].body == R"({"StartRequests":[{"EventId":"x"}]})");
  FakeHttp nameless(Pages{});
  CHECK_FALSE(AzureNotices(nameless.url()).Look(kNow).ok());
}

TEST_CASE("a file is a notice while it is there") {
  TempDir dir("notice");
  const std::string path = dir.File("notice");
  FileNotices file(path);
  CHECK(*file.Look(kNow) == std::nullopt);
  REQUIRE(WriteFileAtomic(path, "").ok());
  CHECK(*file.Look(kNow) == Notice{"by file", 0});
  REQUIRE(WriteFileAtomic(path, "the roof leaks\n").ok());
  CHECK(*file.Look(kNow) == Notice{"the roof leaks", 0});
  const Millis before = std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  REQUIRE(WriteFileAtomic(path, R"({"deadline_s": 90, "reason": "rain"})").ok());
  auto said = file.Look(kNow);
  REQUIRE((said.ok() && *said));
  CHECK((*said)->reason == "rain");
  CHECK(std::abs((*said)->deadline - before - 90'000) < 10'000);
  for (const char* broken : {"{", R"({"deadline_s": -1})", R"({"deadline_s": 1e99})"}) {
    REQUIRE(WriteFileAtomic(path, broken).ok());
    CHECK_FALSE(file.Look(kNow).ok());
  }
  REQUIRE(RemoveTree(path).ok());
  CHECK(*file.Look(kNow) == std::nullopt);
}

TEST_CASE("auto takes what fits the machine, without asking the network") {
  std::map<std::string, std::string> dmi, env;
  const MachineFacts machine{[&](const std::string& file) { return dmi[file]; },
                             [&](const std::string& name) { return env.contains(name); }};
  using Names = std::vector<std::string>;
  CHECK(NoticeNames("auto", machine)->empty());
  dmi["sys_vendor"] = "Amazon EC2";
  CHECK(*NoticeNames("auto", machine) == Names{"aws"});
  dmi = {{"sys_vendor", "Xen"}, {"bios_version", "4.11.amazon"}};  // c4, m4, p2 and their like.
  CHECK(*NoticeNames("auto", machine) == Names{"aws"});
  dmi = {{"sys_vendor", "Xen"}, {"bios_version", "4.11.2"}};
  CHECK(NoticeNames("auto", machine)->empty());
  CHECK(NoticeNames("none", machine)->empty());
  dmi = {{"product_name", "Google Compute Engine"}};
  env["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  CHECK(*NoticeNames("auto", machine) == Names{"gcp", "kubernetes"});
  CHECK(*NoticeNames("azure,slurm,azure", machine) == Names{"azure", "slurm"});
  auto wrong = NoticeNames("awss", machine);
  REQUIRE_FALSE(wrong.ok());
  CHECK(MessageOf(wrong.status()) == "--notices: unknown source 'awss'");
  CHECK(HintOf(wrong.status()) == "did you mean 'aws'?");
}

TEST_CASE("signals reach the source that was asked for") {
  NoticeSources slurm = MakeNoticeSources({"slurm"}, "", "");
  REQUIRE(slurm.all.size() == 1);
  REQUIRE(slurm.on_usr1 == slurm.on_term);
  CHECK(*slurm.all[0]->Look(kNow) == std::nullopt);
  slurm.on_usr1->Say({"signal SIGUSR1", kNow + 5});
  CHECK(*slurm.all[0]->Look(kNow) == Notice{"signal SIGUSR1", kNow + 5});
  NoticeSources pod = MakeNoticeSources({"kubernetes", "aws"}, "", "/tmp/notice");
  CHECK(pod.all.size() == 3);
  CHECK(pod.on_usr1 == nullptr);
  CHECK(pod.on_term != nullptr);
}
