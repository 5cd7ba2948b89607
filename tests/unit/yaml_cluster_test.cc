#include <catch2/catch.hpp>

#include "common/yaml/cluster_spec.h"

using namespace rt;

namespace {
absl::StatusOr<ClusterSpec> Load(const char* text) {
  return LoadCluster(*ParseYaml(text, "c.yaml"));
}
}  // namespace

TEST_CASE("cluster: two workers share this machine unless told otherwise") {
  auto spec = Load("cluster_name: demo\nprovider: {type: local}\n");
  REQUIRE(spec.ok());
  auto workers = LocalWorkers(*spec, 8);
  REQUIRE(workers.size() == 2);
  CHECK(workers[0].name == "worker-1");
  CHECK(workers[0].resources == "cpu=4");
  CHECK(LocalWorkers(*spec, 1)[1].resources == "cpu=1");
}

TEST_CASE("cluster: the first worker type's resources count") {
  auto spec = Load(
      "cluster_name: demo\nmax_workers: 3\nprovider: {type: local}\nhead_node_type: head\n"
      "available_node_types:\n  head: {node_config: {}, resources: {}}\n"
      "  w: {node_config: {}, resources: {CPU: 2, GPU: 1}}\n");
  REQUIRE(spec.ok());
  auto workers = LocalWorkers(*spec, 8);
  REQUIRE(workers.size() == 3);
  CHECK(workers[2].resources == "cpu=2,gpu=1");
}

TEST_CASE("cluster: an unknown key is an error with a suggestion, at the key") {
  auto spec = Load("cluster_name: demo\nprovider: {type: local}\nmax_worker: 3\n");
  REQUIRE(!spec.ok());
  CHECK(HintOf(spec.status()) == "did you mean 'max_workers'?");
  CHECK(PositionOf(spec.status()).line == 3);
  CHECK(PositionOf(spec.status()).column == 1);
}

TEST_CASE("cluster: cluster_name and provider are required; addresses mean ssh") {
  CHECK(!Load("provider: {type: local}\n").ok());
  CHECK(!Load("cluster_name: demo\n").ok());
  CHECK(!Load("cluster_name: ../x\nprovider: {type: local}\n").ok());
  auto spec = Load("cluster_name: a\nprovider: {type: local, head_ip: 1.2.3.4}\n");
  REQUIRE(spec.ok());
  CHECK(spec->provider_type == "ssh");
}

TEST_CASE("cluster: a number of workers is decimal and has a bound, which the error names") {
  const auto error = [](const std::string& provider, const std::string& lines) {
    const std::string text = "cluster_name: a\nprovider: {type: " + provider + "}\n" + lines + "\n";
    const absl::Status status = Load(text.c_str()).status();
    return status.ok() ? ""
                       : std::to_string(PositionOf(status).line) + ":" +
                             std::to_string(PositionOf(status).column) + ": " + MessageOf(status);
  };
  const std::string local = "max_workers must be a whole number, 0 to 1000";
  for (const char* value : {"0x10", "0o20", "1001", "-1", "1.5", "two"})
    CHECK(error("local", "max_workers: " + std::string(value)).starts_with("3:14: " + local));
  CHECK(error("local", "max_workers: 1000").empty());
  CHECK(error("aws", "max_workers: 10000").empty());
  CHECK(error("aws", "max_workers: 10001")
            .starts_with("3:14: max_workers must be a whole number, 0 to 10000"));
  CHECK(error("local", "available_node_types:\n  w: {max_workers: 0x2}").starts_with("4:20: "));
}

TEST_CASE("cluster: a warning says when workers offer many more cpus than the machine has") {
  const auto spec = Load("cluster_name: a\nprovider: {type: local}\nmax_workers: 9\n");
  REQUIRE(spec.ok());
  CHECK(OvercommitWarning(*spec, 4).empty());
  CHECK(OvercommitWarning(*spec, 2) ==
        "9 workers with cpu=1 offer more cpus than this machine's 2: trials share them. Lower "
        "max_workers, or cpu in the node type's resources");
}

TEST_CASE("cluster: a resource's name that a worker cannot be told has a position") {
  for (const char* written : {"\"a,b=c\": 1", "custom: {\"a,b=c\": 1}", "\" a\": 1"}) {
    INFO(written);
    const std::string text =
        "cluster_name: a\nprovider: {type: local}\navailable_node_types:\n"
        "  w: {resources: {" +
        std::string(written) + "}}\n";
    const absl::Status status = Load(text.c_str()).status();
    REQUIRE(!status.ok());
    CHECK(PositionOf(status).file == "c.yaml");
    CHECK(PositionOf(status).line == 4);
    CHECK(PositionOf(status).column >= 19);
    CHECK(MessageOf(status).find("cannot be the name of a resource") != std::string::npos);
  }
}

TEST_CASE("cluster: Ray's start commands are ignored with a warning") {
  auto spec = Load("cluster_name: a\nprovider: {type: aws}\nhead_start_ray_commands: [ray stop]\n");
  REQUIRE(spec.ok());
  CHECK(spec->warnings.size() == 1);
}

TEST_CASE("cluster: keys that change nothing on one machine are named in one warning") {
  auto warnings = [](const std::string& text) {
    const auto spec = Load(("cluster_name: a\nprovider: {type: local}\n" + text).c_str());
    REQUIRE(spec.ok());
    return spec->warnings;
  };
  const std::string tail =
      " no effect with provider {type: local}: all programs run on this machine as it is";
  CHECK(warnings("auth: {ssh_user: me}\nsetup_commands: [pip install x]\n") ==
        std::vector<std::string>{"auth, setup_commands have" + tail});
  CHECK(warnings("docker: {image: x}\n") == std::vector<std::string>{"docker has" + tail});
  CHECK(warnings("docker: {}\nsetup_commands: []\nauth:\nno_restart: false\n").empty());
  CHECK(warnings("max_workers: 4\nmin_workers: 1\nidle_timeout_minutes: 3\n").empty());
  CHECK(warnings("max_workers: 4\nidle_timeout_minutes: 3\n") ==
        std::vector<std::string>{
            "idle_timeout_minutes has" + tail +
            ", and workers come and go only if min_workers is below max_workers"});
  CHECK(warnings("head_node_type: h\navailable_node_types:\n  h: {resources: {CPU: 1}, "
                 "node_config: {}, max_workers: 0}\n  w: {resources: {CPU: 1}, labels: {a: b}}\n"
                 "  v: {resources: {GPU: 1}}\n") ==
        std::vector<std::string>{"available_node_types/h/resources, available_node_types/w/labels, "
                                 "available_node_types/v have" +
                                 tail});
  CHECK(warnings("head_node_type: h\navailable_node_types:\n  h: {resources: {CPU: 0}}\n"
                 "  w: {resources: {CPU: 1}}\n")
            .empty());
  const auto cloud = Load("cluster_name: a\nprovider: {type: aws}\nauth: {ssh_user: me}\n");
  REQUIRE(cloud.ok());
  CHECK(cloud->warnings.empty());
}

TEST_CASE("cluster: a journal is a URL or a map, and never holds a password") {
  auto spec = Load("cluster_name: demo\nprovider: {type: local}\njournal: postgres://rt@db/rt\n");
  REQUIRE(spec.ok());
  CHECK(spec->journal.GetString("url") == "postgres://rt@db/rt");
  for (const char* journal : {"{where: x}", "postgres://rt:secret@db/rt",
                              "'postgres://db/rt?user=rt&password=secret'"}) {
    auto refused = Load(("cluster_name: demo\nprovider: {type: local}\njournal: " +
                         std::string(journal) + "\n").c_str());
    CHECK(absl::IsInvalidArgument(refused.status()));
    CHECK(PositionOf(refused.status()).line == 3);
  }
}

TEST_CASE("cluster: the interval between two sizes of an elastic trial is a number of seconds") {
  const std::string head = "cluster_name: demo\nprovider: {type: local}\nelastic: ";
  auto spec = Load((head + "{interval_s: 5}\n").c_str());
  REQUIRE(spec.ok());
  CHECK(spec->elastic.GetInt("interval_s") == 5);
  for (const char* elastic : {"{interval: 5}", "{interval_s: 0}", "{interval_s: soon}", "[5]"}) {
    auto refused = Load((head + elastic + "\n").c_str());
    CHECK(absl::IsInvalidArgument(refused.status()));
    CHECK(PositionOf(refused.status()).line == 3);
  }
}

TEST_CASE("cluster: workers come by demand where min_workers is said and below max_workers") {
  const std::string head = "cluster_name: demo\nprovider: {type: local}\nmax_workers: 4\n";
  CHECK(!LocalPool(*Load(head.c_str()), 8).has_value());
  CHECK(!LocalPool(*Load((head + "min_workers: 4\n").c_str()), 8).has_value());
  const auto pool = LocalPool(
      *Load((head + "min_workers: 0\nidle_timeout_minutes: 0.5\nupscaling_speed: 2\n").c_str()), 8);
  REQUIRE(pool.has_value());
  CHECK(pool->name == "worker");
  CHECK(pool->resources == "cpu=2");
  CHECK(pool->min_workers == 0);
  CHECK(pool->max_workers == 4);
  CHECK(pool->idle_timeout_s == 30);
  CHECK(pool->upscaling_speed == 2);
  const auto typed = LocalPool(*Load((head + "available_node_types:\n  big: {node_config: {}, "
                                             "resources: {CPU: 3}, min_workers: 1, max_workers: 3, "
                                             "idle_timeout_s: 7}\n")
                                         .c_str()),
                               8);
  REQUIRE(typed.has_value());
  CHECK(typed->name == "big");
  CHECK(typed->resources == "cpu=3");
  CHECK(typed->min_workers == 1);
  CHECK(typed->max_workers == 3);
  CHECK(typed->idle_timeout_s == 7);
}

TEST_CASE("cluster: hooks are lists, and mistakes in them have a position") {
  const std::string head =
      "cluster_name: demo\nprovider: {type: local}\nmax_workers: 4\nmin_workers: 0\nautoscaling:\n";
  const auto spec =
      Load((head + "  hook_timeout: 1m\n  hooks: {scale_up: [/bin/echo, '$x']}\n").c_str());
  REQUIRE(spec.ok());
  CHECK(spec->warnings.empty());
  CHECK(spec->autoscaling.GetDouble("hook_timeout_s") == 60);
  CHECK(spec->autoscaling.Find("hooks")->Find("scale_up")->array().size() == 2);
  for (const char* wrong :
       {"  hooks: {scale_up: 'echo x'}", "  hooks: {scale_up: []}", "  hooks: {scale: [x]}",
        "  hook_timeout: soon", "  hook_timeout: -1", "  hook: {}"}) {
    const auto refused = Load((head + wrong + "\n").c_str());
    CHECK(absl::IsInvalidArgument(refused.status()));
    CHECK(PositionOf(refused.status()).line == 6);
  }
  const auto fixed =
      Load(("cluster_name: demo\nprovider: {type: local}\nautoscaling:\n"
            "  hooks: {scale_up: [x]}\n"));
  REQUIRE(fixed.ok());
  CHECK(fixed->warnings.size() == 1);
}

TEST_CASE("cluster: a checkpoint store is a directory, a bucket or a map") {
  const std::string cluster = "cluster_name: demo\nprovider: {type: local}\ncheckpoint_store: ";
  CHECK(Load((cluster + "/mnt/shared\n").c_str())->checkpoint_store.GetString("url") ==
        "/mnt/shared");
  CHECK(Load((cluster + "{url: 's3://b/p', endpoint: 'http://minio:9000', keep_garbage: 2h}\n")
                 .c_str())->checkpoint_store.GetString("endpoint") == "http://minio:9000");
  CHECK(Load((cluster + "{quota: 500GiB}\n").c_str())->checkpoint_store.GetString("quota") ==
        "500GiB");
  CHECK(Load((cluster + "{url: /mnt/shared, quota: 2000000}\n").c_str()).ok());
  for (const char* store : {"{quota: much}", "{quota: 5}", "{quota: -1GiB}", "{qouta: 1GiB}",
                            "{quota: 1GiB, region: x}", "{}", "{bucket: x}", "relative/path",
                            "gs://bucket", "{url: ftp://x}", "7"}) {
    auto refused = Load((cluster + store + "\n").c_str());
    CHECK(absl::IsInvalidArgument(refused.status()));
    CHECK(PositionOf(refused.status()).line == 3);
  }
}
