#include "common/run/http.h"

#include <ctime>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/libcurl.h"

namespace rt {
namespace {

constexpr size_t kIdleHandlesMax = 16;
constexpr size_t kHeadersBytesMax = 256u << 10;
constexpr long kStallBytesPerSecond = 1'024;  // Slower than this, a transfer stands still.

// What the callbacks of one call write into.
struct Transfer {
  HttpAnswer answer;
  Bytes bytes_max = 0;
  size_t header_bytes = 0;
  bool too_long = false;
  bool headers_whole = false;  // Their end was seen: curl takes a connection's end for it.
};

size_t OnBody(char* data, size_t one, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const size_t size = one * count;
  if (static_cast<Bytes>(transfer.answer.body.size() + size) > transfer.bytes_max) {
    transfer.too_long = true;
    return 0;
  }
  transfer.answer.body.append(data, size);
  return size;
}

size_t OnHeader(char* data, size_t one, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const size_t size = one * count;
  transfer.header_bytes += size;
  if (transfer.header_bytes > kHeadersBytesMax) return 0;
  std::string_view line(data, size);
  size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    transfer.answer.headers.clear();  // An interim answer came before.
    transfer.headers_whole = false;
  } else if (Trim(line).empty()) {
    transfer.headers_whole = true;
  } else if (colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    transfer.answer.headers.emplace_back(std::move(name), Trim(line.substr(colon + 1)));
  }
  return size;
}

int OnSending(void* context, char*, char*, int, int) {
  ++static_cast<Transfer*>(context)->answer.times_sent;
  return CURL_PREREQFUNC_OK;
}

absl::StatusCode CodeOf(CURLcode code) {
  if (code == CURLE_OPERATION_TIMEDOUT) return absl::StatusCode::kDeadlineExceeded;
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
    return absl::StatusCode::kInvalidArgument;
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
    return absl::StatusCode::kFailedPrecondition;
  return absl::StatusCode::kUnavailable;
}

// Scheme, host and port: what may stand in a log.
std::string OriginOf(const std::string& url) {
  size_t scheme = url.find("://");
  if (scheme == std::string::npos) return "a URL without scheme";
  return url.substr(0, url.find_first_of("/?#", scheme + 3));
}

struct FreeList {
  void operator()(curl_slist* list) const { Curl().slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

absl::StatusOr<HeaderList> HeadersOf(const HttpRequest& request) {
  HeaderList list;
  // curl would add a type of its own, and wait for leave to send.
  std::vector<std::string> lines = {"Expect:"};
  bool typed = false;
  for (const auto& [name, value] : request.headers) {
    if ((name + value).find_first_of(std::string("\r\n\0", 3)) != std::string::npos)
      return Invalid("a header with a line end");
    typed = typed || name == "Content-Type";
    lines.push_back(value.empty() ? name + ";" : name + ": " + value);
  }
  if (!typed) lines.push_back("Content-Type:");
  for (const std::string& line : lines) {
    curl_slist* longer = Curl().slist_append(list.get(), line.c_str());
    RT_CHECK(longer != nullptr);
    (void)list.release();
    list.reset(longer);
  }
  return list;
}

}  // namespace

struct HttpClient::Handle {
  CURL* curl = Curl().easy_init();
  ~Handle() { Curl().easy_cleanup(curl); }
};

std::string HttpAnswer::Header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

HttpClient::HttpClient() = default;

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Handle> HttpClient::Take() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Handle>();
  auto handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

void HttpClient::GiveBack(std::unique_ptr<Handle> handle) {
  Curl().easy_reset(handle->curl);  // Keeps the connections.
  std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleHandlesMax) idle_.push_back(std::move(handle));
}

absl::StatusOr<HttpAnswer> HttpClient::Do(const HttpRequest& request) {
  RT_RETURN_IF_ERROR(OpenLibCurl().status());
  RT_ASSIGN_OR_RETURN(HeaderList headers, HeadersOf(request));
  std::unique_ptr<Handle> handle = Take();
  RT_CHECK(handle->curl != nullptr);
  CURL* curl = handle->curl;
  Transfer transfer{.bytes_max = request.answer_bytes_max};
  char error[CURL_ERROR_SIZE] = {};
  Curl().easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  Curl().easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  Curl().easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  Curl().easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  Curl().easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);  // What was signed is what is sent.
  Curl().easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  Curl().easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  Curl().easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout));
  Curl().easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout));
  Curl().easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
  Curl().easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout / 1000));
  Curl().easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  Curl().easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  Curl().easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  Curl().easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  Curl().easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  Curl().easy_setopt(curl, CURLOPT_PREREQFUNCTION, OnSending);
  Curl().easy_setopt(curl, CURLOPT_PREREQDATA, &transfer);
  Curl().easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  if (request.direct) Curl().easy_setopt(curl, CURLOPT_NOPROXY, "*");
  if (request.method == "HEAD") {
    Curl().easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET") {
    if (request.method != "DELETE" || !request.body.empty()) {
      Curl().easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
      Curl().easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    }
    Curl().easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  const CURLcode code = Curl().easy_perform(curl);
  long status = 0;
  Curl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  GiveBack(std::move(handle));
  const std::string what = request.method + " " + OriginOf(request.url);
  if (transfer.too_long)
    return absl::OutOfRangeError(ToAbsl(what + ": the answer is longer than " +
                                        std::to_string(request.answer_bytes_max) + " bytes"));
  if (code != CURLE_OK)
    return absl::Status(CodeOf(code),
                        ToAbsl(what + ": " + (error[0] != 0 ? error : Curl().easy_strerror(code))));
  if (!transfer.headers_whole)
    return absl::UnavailableError(ToAbsl(what + ": the answer was cut off in its headers"));
  transfer.answer.status = static_cast<int>(status);
  return std::move(transfer.answer);
}

Millis ParseHttpDate(const std::string& text) {
  const time_t seconds = Curl().getdate(text.c_str(), nullptr);
  return seconds < 0 ? 0 : Millis{seconds} * 1000;
}

Millis ParseIsoTime(const std::string& text) {
  std::tm time{};
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &time.tm_year, &time.tm_mon,
                  &time.tm_mday, &time.tm_hour, &time.tm_min, &time.tm_sec) != 6)
    return 0;
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  return Millis{::timegm(&time)} * 1000;
}

}  // namespace rt
