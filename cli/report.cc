#include "cli/report.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "common/run/trial_client.h"

namespace rt {
namespace {

constexpr double kPatienceSeconds = 30;  // A worker daemon may be on its way back.

int Fail(const ReportRequest& request, int code, const char* name, const std::string& message,
         const std::string& hint = "") {
  if (request.json)
    std::fprintf(stderr,
                 "{\"error\":{\"code\":\"%s\",\"message\":%s,\"hint\":%s,\"file\":null,"
                 "\"line\":null,\"column\":null}}\n",
                 name, MetricValue::Quote(message).c_str(),
                 hint.empty() ? "null" : MetricValue::Quote(hint).c_str());
  else
    std::fprintf(stderr, "rt: %s\n%s%s%s", message.c_str(), hint.empty() ? "" : "hint: ",
                 hint.c_str(), hint.empty() ? "" : "\n");
  return code;
}

std::optional<double> NumberOf(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || text.find_first_of("xX \t\n") != std::string::npos)
    return std::nullopt;
  return value;
}

// Whole numbers stay whole, other numbers and truth values are what they look like, and everything
// else is a text.
std::string JsonOf(const std::string& text) {
  if (text == "true" || text == "false") return text;
  std::optional<double> number = NumberOf(text);
  if (!number) return MetricValue::Quote(text);
  char* end = nullptr;
  errno = 0;
  long long whole = std::strtoll(text.c_str(), &end, 10);
  if (*end == '\0' && errno == 0) return std::to_string(whole);
  return MetricValue(*number).json();
}

std::string MetricsOf(const std::vector<std::string>& assignments) {
  std::string json = "{";
  for (const std::string& assignment : assignments) {
    size_t equals = assignment.find('=');
    json += (json.size() > 1 ? "," : "") + MetricValue::Quote(assignment.substr(0, equals)) + ":" +
            JsonOf(assignment.substr(equals + 1));
  }
  return json + "}";
}

// The daemon that gets the path has another working directory, so the path is made absolute.
std::string AbsoluteOf(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}

}  // namespace

int Report(const ReportRequest& request) {
  const char* example = "rt report loss=0.31 accuracy=0.9 --step 4";
  const char* usage = "INVALID_ARGUMENT";
  if (request.assignments.empty())
    return Fail(request, 2, usage, "nothing to report", example);
  for (const std::string& assignment : request.assignments)
    if (size_t at = assignment.find('='); at == std::string::npos || at == 0)
      return Fail(request, 2, usage, "'" + assignment + "' is not NAME=VALUE", example);
  TrialClient::Extra extra;
  extra.wait = request.wait;
  extra.numbered = false;
  std::optional<double> step = NumberOf(request.step);
  if (!request.step.empty() && !(step && *step >= 0 && *step < 1e15))
    return Fail(request, 2, usage, "--step: '" + request.step + "' is not a number from 0",
                example);
  if (step) extra.step = *step;
  if (!request.checkpoint.empty()) {
    extra.checkpoint = AbsoluteOf(request.checkpoint);
    if (extra.checkpoint.empty())
      return Fail(request, 2, usage,
                  "--checkpoint: " + request.checkpoint + ": " + std::strerror(errno));
  }
  for (const char* name : {"RT_SOCKET", "RT_TOKEN"})
    if (std::getenv(name) == nullptr)
      return Fail(request, 2, usage,
                  "rt report works only in a trial: " + std::string(name) + " is not set",
                  "call it in the program of an experiment that rt submit runs");
  std::optional<TrialClient> client;
  try {
    client.emplace(kPatienceSeconds);
  } catch (const std::runtime_error& error) {
    return Fail(request, 4, "UNAVAILABLE", error.what());
  }
  try {
    TrialClient::Verdict verdict = client->ReportJson(MetricsOf(request.assignments), extra);
    const char* word = verdict.stop ? "\"stop\"" : request.wait ? "\"continue\"" : "null";
    if (request.json)
      std::printf("{\"verdict\":%s,\"reason\":%s}\n", word,
                  verdict.reason.empty() ? "null" : MetricValue::Quote(verdict.reason).c_str());
    else if (request.wait) std::puts(verdict.stop ? "stop" : "continue");
  } catch (const std::runtime_error& error) {
    return Fail(request, 1, "FAILED_PRECONDITION", error.what());
  }
  return 0;
}

}  // namespace rt
