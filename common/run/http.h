// A small HTTP/1.1 client over libcurl, for buckets and metadata servers. Thread-safe: each call
// takes a connection handle of its own, and handles that are done keep their connections for later
// calls. Redirects are never followed: headers may carry credentials.
//   Unavailable        no connection, or it broke; the request may have been carried out
//   DeadlineExceeded   the same, by time
//   FailedPrecondition the server's certificate does not hold
//   InvalidArgument    the URL
// Any status code of the server is an answer, not an error.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;  // Must outlive the call. Sent with its length unless GET or HEAD.
  Millis connect_timeout = 3'000;
  Millis timeout = 0;              // Of the whole call; 0: none.
  Millis stall_timeout = 10'000;  // Of a transfer that (almost) stands still; 0, for polls: none.
  Bytes answer_bytes_max = Bytes{1} << 30;
  bool direct = false;  // Past any proxy of the environment: metadata servers.
};

struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // Names in lower case.
  std::string body;
  // Above 1 when an idle connection had died and the request went out again on a new one: the
  // first may have been carried out.
  int times_sent = 0;
  std::string Header(std::string_view name) const;  // "" when absent.
};

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  absl::StatusOr<HttpAnswer> Do(const HttpRequest& request);

 private:
  struct Handle;
  std::unique_ptr<Handle> Take();
  void GiveBack(std::unique_ptr<Handle> handle);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_;
};

// "Sat, 21 Nov 2026 22:24:23 GMT" as milliseconds; 0 when it is something else.
Millis ParseHttpDate(const std::string& text);
// "2026-11-21T22:24:23Z", with or without fractions; 0 when it is something else.
Millis ParseIsoTime(const std::string& text);

}  // namespace rt
