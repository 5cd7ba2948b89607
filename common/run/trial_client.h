// The trial's side of the trial protocol (docs/trial-protocol.md) in one header: C++17 and POSIX,
// nothing of ours, nothing to link. Copy it, or include <rt/trial_client.h> where rt is installed.
//
//   rt::TrialClient trial;                       // Inside a trial: RT_SOCKET and RT_TOKEN are set.
//   for (int epoch = 1; epoch <= 27; ++epoch) {
//     double loss = train();
//     if (trial.Report({{"loss", loss}}).stop) break;
//   }
//
// Blocking, for one thread. A daemon that is restarted meanwhile is dialled again for 60 s, and
// what it had not acknowledged is sent again under the same number: no row is lost or doubled.
// Every failure is a std::runtime_error whose text says what was wrong.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace rt {

// A value of a metric: a number, a truth value or a text, as JSON.
class MetricValue {
 public:
  MetricValue(bool value) : text_(value ? "true" : "false") {}                  // NOLINT
  MetricValue(int value) : text_(std::to_string(value)) {}                      // NOLINT
  MetricValue(long value) : text_(std::to_string(value)) {}                     // NOLINT
  MetricValue(long long value) : text_(std::to_string(value)) {}                // NOLINT
  MetricValue(double value) : text_(OfDouble(value)) {}                         // NOLINT
  MetricValue(const std::string& value) : text_(Quote(value)) {}                // NOLINT
  MetricValue(const char* value) : text_(Quote(value)) {}                       // NOLINT
  const std::string& json() const { return text_; }

  static std::string Quote(const std::string& text) {
    std::string quoted = "\"";
    for (unsigned char c : text) {
      char escaped[8];
      if (c == '"' || c == '\\') quoted += '\\';
      if (c < 0x20) std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      quoted += c < 0x20 ? std::string(escaped) : std::string(1, static_cast<char>(c));
    }
    return quoted + "\"";
  }

 private:
  static std::string OfDouble(double value) {
    if (std::isnan(value)) return "\"NaN\"";
    if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
  }
  std::string text_;
};

class TrialClient {
 public:
  struct Verdict {
    bool stop = false;
    std::string reason;
  };
  struct Extra {
    double step = -1;        // The value of training_iteration; counted when negative.
    std::string checkpoint;  // A directory or file, which is committed before Report returns.
    bool wait = false;       // Ask the head, also where no early stopping decides.
    bool numbered = true;    // Not where several programs of one trial report.
  };

  explicit TrialClient(double patience_s = 60) : patience_s_(patience_s) {
    path_ = Variable("RT_SOCKET");
    token_ = Variable("RT_TOKEN");
    Dial();
  }
  ~TrialClient() { Close(); }
  TrialClient(const TrialClient&) = delete;
  TrialClient& operator=(const TrialClient&) = delete;

  using Metrics = std::initializer_list<std::pair<const char*, MetricValue>>;
  Verdict Report(Metrics metrics) { return Report(metrics, Extra()); }
  Verdict Report(Metrics metrics, const Extra& extra) {
    std::string json = "{";
    for (const auto& metric : metrics)
      json += (json.size() > 1 ? "," : "") + MetricValue::Quote(metric.first) + ":" +
              metric.second.json();
    return ReportJson(json + "}", extra);
  }
  // `metrics`: the text of a JSON object.
  Verdict ReportJson(std::string metrics, const Extra& extra) {
    iteration_ = extra.step >= 0 ? extra.step : iteration_ + 1;
    if (extra.step >= 0) {
      std::string step = "\"training_iteration\":" + MetricValue(extra.step).json();
      metrics = metrics == "{}" ? "{" + step + "}" : "{" + step + "," + metrics.substr(1);
    }
    const bool wait = extra.wait || milestones_.count(iteration_) > 0;
    seq_ = extra.numbered ? seq_ + 1 : 0;
    std::string line = std::string("{\"op\":\"report\",\"wait\":") + (wait ? "true" : "false") +
                       ",\"metrics\":" + metrics;
    line += extra.numbered ? ",\"seq\":" + std::to_string(seq_) : ",\"key\":\"" + Key() + "\"";
    if (!extra.checkpoint.empty())
      line += ",\"commit\":true,\"checkpoint\":" + MetricValue::Quote(extra.checkpoint);
    return Exchange(line + "}\n", wait, !extra.checkpoint.empty());
  }

  // Whether this trial was asked to end.
  bool ShouldStop() {
    while (true) {
      std::string line;
      if (Send("{\"op\":\"should_stop\"}\n") && ReceiveOp("should_stop", line))
        return line.find("\"stop\":true") != std::string::npos;
      Dial();
    }
  }
  // The directory of the checkpoint to resume from; empty when there is none.
  static std::string CheckpointDirectory() {
    const char* value = std::getenv("RT_CHECKPOINT_DIR");
    return value == nullptr ? "" : value;
  }
  double iteration() const { return iteration_; }  // Of the last report, restarts included.

 private:
  using Clock = std::chrono::steady_clock;

  static std::string Variable(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0')
      throw std::runtime_error(std::string(name) + " is not set: this is no trial of rt");
    return value;
  }
  // A name for a report without a number: one that is sent again is known by it.
  static std::string Key() {
    std::random_device random;
    char text[40];
    std::snprintf(text, sizeof text, "%08x%08x%08x", random(), random(), random());
    return text;
  }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    in_.clear();
  }

  // Connects and says hello, again and again until the patience is over.
  void Dial() {
    Close();
    const auto until = Clock::now() + std::chrono::duration<double>(patience_s_);
    while (!DialOnce()) {
      if (Clock::now() > until)
        throw std::runtime_error("the worker at " + path_ + " does not answer");
      ::poll(nullptr, 0, 50);
    }
  }
  bool DialOnce() {
    Close();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path)
      throw std::runtime_error("RT_SOCKET is longer than a socket's path may be");
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      return false;
    std::string line;
    if (!Send("{\"op\":\"hello\",\"token\":" + MetricValue::Quote(token_) + "}\n") ||
        !Receive(line))
      return false;
    if (line.find("\"ok\":true") == std::string::npos)
      throw std::runtime_error("the worker refused this trial: " + Text(line, "message"));
    if (greeted_) return true;
    greeted_ = true;
    iteration_ = Number(line, "iteration_base");
    seq_ = static_cast<unsigned long long>(Number(line, "spooled_seq"));
    if (Text(line, "time_attr") == "training_iteration") ReadMilestones(line);
    return true;
  }

  // Sends the report until it is answered; a lost connection repeats it.
  Verdict Exchange(const std::string& report, bool wait, bool checkpoint) {
    while (true) {
      std::string line;
      bool alive = Send(report), acked = !checkpoint && wait, decided = !wait;
      while (alive && !(acked && decided)) {
        alive = Receive(line);
        if (!alive) break;
        const std::string op = Text(line, "op");
        if (op == "stop") Told(line);
        const bool mine = Number(line, "seq") >= static_cast<double>(seq_);
        if (op == "error" && (mine || Number(line, "seq") == 0))
          throw std::runtime_error("the report was refused: " + Text(line, "message"));
        if (op == "ack" && mine) acked = true;
        if (op == "verdict" && mine) {
          decided = true;
          if (Text(line, "verdict") == "stop") Told(line);
        }
      }
      if (acked && decided) return told_;
      Dial();
    }
  }
  void Told(const std::string& line) {
    told_.stop = true;
    told_.reason = Text(line, "reason");
  }
  bool ReceiveOp(const std::string& op, std::string& line) {
    while (Receive(line)) {
      if (Text(line, "op") == "stop") Told(line);
      if (Text(line, "op") == op) return true;
    }
    return false;
  }

  bool Send(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      ssize_t sent = ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }
  bool Receive(std::string& line) {
    size_t end;
    while ((end = in_.find('\n')) == std::string::npos) {
      char buffer[16384];
      ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      in_.append(buffer, static_cast<size_t>(count));
    }
    line = in_.substr(0, end);
    in_.erase(0, end + 1);
    return true;
  }

  // The daemon writes compact JSON, and none of the keys below stands inside another text before
  // its own place: a search for "key": finds it.
  static size_t Place(const std::string& line, const std::string& key) {
    const std::string mark = "\"" + key + "\":";
    size_t at = line.find(mark);
    return at == std::string::npos ? at : at + mark.size();
  }
  static double Number(const std::string& line, const std::string& key) {
    size_t at = Place(line, key);
    return at == std::string::npos ? 0 : std::strtod(line.c_str() + at, nullptr);
  }
  static std::string Text(const std::string& line, const std::string& key) {
    size_t at = Place(line, key);
    if (at == std::string::npos || line[at] != '"') return "";
    std::string text;
    for (++at; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && at + 1 < line.size()) ++at;
      text += line[at];
    }
    return text;
  }
  void ReadMilestones(const std::string& line) {
    size_t at = Place(line, "milestones");
    if (at == std::string::npos || line[at] != '[') return;
    const char* next = line.c_str() + at + 1;
    while (*next != ']' && *next != '\0') {
      char* end = nullptr;
      milestones_.insert(std::strtod(next, &end));
      if (end == next) return;
      next = *end == ',' ? end + 1 : end;
    }
  }

  const double patience_s_;
  std::string path_, token_;
  int fd_ = -1;
  std::string in_;
  bool greeted_ = false;
  double iteration_ = 0;
  unsigned long long seq_ = 0;
  std::set<double> milestones_;
  Verdict told_;
};

}  // namespace rt
