// The warm-start servers of this daemon: one process per (bundle, trainable, interpreter,
// environment) that has loaded the trainable and forks trials in milliseconds, under a group's
// rt-shim (worker/shim/shim_group.h, python/rt/_warm.py). A server ends when it has been idle, when
// there are too many, and with this daemon; the trials that it forked keep running. Thread-safe.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run/subprocess.h"
#include "worker/launch/launch_body.h"
#include "worker/launch/launch_lock.h"

namespace rt::worker {

class WarmServers {
 public:
  WarmServers(std::string state_dir, std::string runtime_dir, std::string bin_dir,
              LaunchLock& lock);
  ~WarmServers();

  // Whether this launch is one for a server: a Python function or class, or an executor of tasks,
  // which is not switched off (RT_WARM_START=0), and was not refused before. The first refusal is
  // logged.
  bool Wants(const LaunchBody& body);
  // Asks for a fork, of a server that is started if need be. The connection answers once
  // (ReadReply), and ends with the attempt. `tree`: the unpacked bundle, or "". Blocks while the
  // server's copy of it is made.
  absl::StatusOr<int> Launch(const LaunchBody& body, const std::string& run_dir,
                             const std::string& tree);
  struct Reply {
    uint64_t pid = 0;  // 0: not started; start it cold.
    std::string why;
    bool refused = false;  // The trainable can never be started warm.
    bool ended = false;    // No answer: the group's file says what happened, or it was killed.
  };
  // nullopt: not yet. Does not block.
  static std::optional<Reply> ReadReply(int connection);
  // It is to be started cold if it was not started: the answer comes soon.
  static void Cancel(int connection);
  void Refuse(const LaunchBody& body, const std::string& why);
  // Watches an attempt of a group, also an earlier daemon's; -1: it is gone.
  static int Watch(const std::string& group_socket, const std::string& run_dir);

  // The attempt ended, or never started.
  void Release(const Fence& fence);
  // Ends idle servers, and forgets those that have ended.
  void Tick(Millis now);
  // Ends the servers, and waits for those without trials.
  void Stop();

 private:
  struct Group {
    std::string key;
    std::string socket;
    std::string directory;
    std::optional<Subprocess> shim;
    int keeper = -1;
    size_t attempts = 0;
    Millis used_at = 0;
  };
  static std::string KeyOf(const LaunchBody& body);
  // Releases `lock` while it starts one.
  absl::StatusOr<Group*> GroupFor(const LaunchBody& body, const std::string& tree,
                                  std::unique_lock<std::mutex>& lock);
  absl::Status StartGroup(Group& group, const LaunchBody& body, const std::string& tree);
  void Retire(Group& group);
  void ForgetEnded();
  void RemoveLeftovers();

  const std::string state_dir_;
  const std::string runtime_dir_;
  const std::string bin_dir_;
  LaunchLock& lock_;
  std::mutex mutex_;
  std::condition_variable changed_;          // A group was started, or could not be.
  std::set<std::string> starting_;           // Keys.
  std::map<std::string, Group> groups_;      // By socket; those that are retired as well.
  std::map<std::string, std::string> open_;  // Key -> socket of the group that takes launches.
  std::map<Fence, std::string> users_;       // -> socket.
  std::set<std::string> refused_;            // Keys.
};

}  // namespace rt::worker
