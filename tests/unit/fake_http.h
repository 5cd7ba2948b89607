// An HTTP server for a test, on a port of its own, that answers what a function says and remembers
// the requests.
#pragma once

#include <httplib.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"

namespace rt {

class FakeHttp {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  explicit FakeHttp(Answer answer) : answer_(std::move(answer)) {
    auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
      answer_(request, response);
    };
    server_.Get(".*", handle).Put(".*", handle).Post(".*", handle).Delete(".*", handle);
    port_ = server_.bind_to_any_port("127.0.0.1");
    RT_CHECK(port_ > 0);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~FakeHttp() {
    while (!server_.is_running()) std::this_thread::yield();  // A stop before would be lost.
    server_.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<httplib::Request> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  Answer answer_;
  httplib::Server server_;
  int port_ = 0;
  std::mutex mutex_;
  std::vector<httplib::Request> requests_;
  std::thread thread_;
};

}  // namespace rt
