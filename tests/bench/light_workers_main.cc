// bench_light_workers HEAD ADMIN_DIR DIR COUNT SLOTS [reports]: joins COUNT light workers to a head
// and prints "ready"; then each line on standard input is answered by one line of JSON with what
// happened since the last one, until the end of the input.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/run/files.h"
#include "rt/v1/cluster.grpc.pb.h"
#include "tests/bench/light_worker.h"
#include "worker/link/join.h"

namespace rt::bench {
namespace {

struct Arguments {
  std::string head, admin, directory;
  int count = 0;
  int64_t slots = 0;
  bool reports = false;
};

absl::StatusOr<Credentials> Join(v1::ClusterService::Stub& admin, const Arguments& arguments,
                                 const std::string& name) {
  grpc::ClientContext context;
  v1::CreateTokenRequest request;
  request.set_role("worker");
  request.set_ttl_ms(600'000);
  v1::CreateTokenReply reply;
  RT_RETURN_IF_ERROR(FromGrpc(admin.CreateToken(&context, request, &reply)));
  const std::string directory = arguments.directory + "/" + name;
  RT_RETURN_IF_ERROR(EnsureDirectory(directory));
  RT_RETURN_IF_ERROR(WriteFileAtomic(directory + "/token", reply.token(), {.sync = false}));
  return worker::ReadOrJoin({.head = arguments.head,
                             .token_file = directory + "/token",
                             .name = name,
                             .default_name = "",
                             .directory = directory + "/credentials"});
}

using Workers = std::vector<std::unique_ptr<LightWorker>>;

using AdminStub = v1::ClusterService::Stub;

absl::StatusOr<std::unique_ptr<AdminStub>> StubOfAdmin(const Arguments& arguments) {
  RT_ASSIGN_OR_RETURN(Credentials admin, ReadCredentials(arguments.admin));
  RT_ASSIGN_OR_RETURN(Identity identity, IdentityOf(admin.own.certificate_pem));
  return v1::ClusterService::NewStub(
      MakeChannel(arguments.head, admin, identity.cluster_id, false));
}

absl::StatusOr<Workers> JoinAll(AdminStub& stub, const Arguments& arguments) {
  RT_ASSIGN_OR_RETURN(Credentials admin, ReadCredentials(arguments.admin));
  RT_ASSIGN_OR_RETURN(Identity identity, IdentityOf(admin.own.certificate_pem));
  Workers workers;
  for (int i = 0; i < arguments.count; ++i) {
    const std::string name = "light-" + std::to_string(i);
    RT_ASSIGN_OR_RETURN(Credentials own, Join(stub, arguments, name));
    workers.push_back(std::make_unique<LightWorker>(
        LightWorkerOptions{arguments.head, own, identity.cluster_id, name, arguments.slots,
                           arguments.reports}));
    workers.back()->Start();
  }
  return workers;
}

// Spread over each second, as the clocks of many machines are.
void ReportAll(const Workers& workers, const std::atomic<bool>& stopping) {
  auto next = std::chrono::steady_clock::now();
  const auto step = std::chrono::microseconds(1'000'000 / workers.size());
  while (!stopping) {
    for (const auto& worker : workers) {
      std::this_thread::sleep_until(next += step);
      worker->Report();
    }
  }
}

// Asks Status over one connection ten times a second: how long each answer took, in ms.
class StatusClient {
 public:
  explicit StatusClient(AdminStub& stub) : stub_(stub), thread_([this] { Ask(); }) {}
  ~StatusClient() {
    stopping_ = true;
    thread_.join();
  }

  std::vector<double> TakeLatencies() {
    std::lock_guard lock(mutex_);
    return std::exchange(took_, {});
  }

 private:
  void Ask() {
    using Clock = std::chrono::steady_clock;
    for (auto next = Clock::now(); !stopping_; next += std::chrono::milliseconds(100)) {
      std::this_thread::sleep_until(next);
      grpc::ClientContext context;
      v1::JsonReply reply;
      const auto begin = Clock::now();
      RT_CHECK(stub_.Status(&context, v1::Empty(), &reply).ok());
      const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
      std::lock_guard lock(mutex_);
      took_.push_back(took.count());
    }
  }

  AdminStub& stub_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<double> took_;
  std::thread thread_;
};

// The value below which `part` of `values` lie, which are sorted here.
Json Quantile(std::vector<double>& values, double part) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

Json Stats(const Workers& workers, StatusClient* client) {
  uint64_t syncs = 0, started = 0, rows = 0;
  std::vector<double> late;
  for (const auto& worker : workers) {
    syncs += worker->syncs();
    started += worker->started();
    rows += worker->acked_rows();
    for (double one : worker->TakeLatencies()) late.push_back(one);
  }
  std::vector<double> answers = client == nullptr ? std::vector<double>() : client->TakeLatencies();
  return Json::MakeObject({{"syncs", syncs},
                           {"started", started},
                           {"acked_rows", rows},
                           {"sync_ms_p50", Quantile(late, 0.5)},
                           {"sync_ms_p99", Quantile(late, 0.99)},
                           {"status_calls", static_cast<uint64_t>(answers.size())},
                           {"status_ms_p50", Quantile(answers, 0.5)},
                           {"status_ms_p99", Quantile(answers, 0.99)}});
}

int Main(const Arguments& arguments) {
  PrepareGrpc();
  auto stub = StubOfAdmin(arguments);
  auto workers = stub.ok() ? JoinAll(**stub, arguments) : absl::StatusOr<Workers>(stub.status());
  if (!workers.ok()) {
    std::fprintf(stderr, "bench_light_workers: %s\n", MessageOf(workers.status()).c_str());
    return 1;
  }
  std::atomic<bool> stopping{false};
  std::thread reporter;
  std::optional<StatusClient> client;
  if (arguments.reports) {
    reporter = std::thread([&] { ReportAll(*workers, stopping); });
    client.emplace(**stub);
  }
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%s\n", Stats(*workers, client ? &*client : nullptr).Dump().c_str());
    std::fflush(stdout);
  }
  client.reset();
  stopping = true;
  if (reporter.joinable()) reporter.join();
  for (const auto& worker : *workers) worker->Stop();
  for (const auto& worker : *workers) {
    while (!worker->is_idle()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: %s HEAD ADMIN_DIR DIR COUNT SLOTS [reports]\n", argv[0]);
    return 2;
  }
  return rt::bench::Main({argv[1], argv[2], argv[3], std::atoi(argv[4]), std::atoll(argv[5]),
                          argc > 6 && std::string(argv[6]) == "reports"});
}
