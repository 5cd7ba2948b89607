// Answers the head's requests for logs: a thread and a SendLog stream each, at most 64 at a time.
// Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "rt/v1/worker.grpc.pb.h"
#include "worker/launch/launcher.h"

namespace rt::worker {

class LogSender {
 public:
  LogSender(std::shared_ptr<grpc::Channel> channel, Launcher& launcher);
  ~LogSender();
  void Take(const v1::SyncReply& reply);
  void Stop();

 private:
  struct Job {
    v1::LogRequest request;
    grpc::ClientContext context;
    std::atomic<bool> done{false};
    std::thread thread;
  };
  void Send(Job& job);
  bool Follow(Job& job, grpc::ClientWriter<v1::LogPiece>& writer);
  std::string AwaitLogs(const Fence& fence);
  bool IsWanted(const Fence& fence);
  bool FollowDaemon(Job& job, grpc::ClientWriter<v1::LogPiece>& writer);

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  Launcher& launcher_;
  std::mutex mutex_;
  uint64_t epoch_ = 0;
  uint64_t version_ = 0;    // Of `wanted_`.
  std::set<Fence> wanted_;  // What the head last said to run here.
  std::set<uint64_t> answered_;
  std::map<uint64_t, std::unique_ptr<Job>> jobs_;
  std::atomic<bool> stopping_{false};
};

}  // namespace rt::worker
