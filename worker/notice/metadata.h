// One request to a cloud's metadata server: past any proxy, short, small. 404 is an answer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run/http.h"

namespace rt::worker {

class Metadata {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  explicit Metadata(std::string base) : base_(std::move(base)) {}
  // An error for a status other than 200, 401 and 404.
  absl::StatusOr<HttpAnswer> Get(const std::string& path, Headers headers,
                                 Millis timeout = kTimeout);
  absl::StatusOr<HttpAnswer> Send(const std::string& method, const std::string& path,
                                  Headers headers, const std::string& body);

  static constexpr Millis kTimeout = 2'000;

 private:
  absl::StatusOr<HttpAnswer> Do(HttpRequest request);

  std::string base_;
  HttpClient http_;
};

}  // namespace rt::worker
