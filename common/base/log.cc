#include "common/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "common/base/check.h"
#include "common/base/time.h"

namespace rt {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

// One write(2) per line, so that lines of several threads and processes do not mix.
void WriteLine(const std::string& line) {
  ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  (void)written;  // A log that cannot be written has nowhere to be complained about.
}

Millis WallClock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<Millis>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

const char* BaseName(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash == nullptr ? file : slash + 1;
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level = level; }
LogLevel GetLogLevel() { return g_level; }

LogLine::LogLine(LogLevel level, const char* file, int line) {
  static constexpr char kLetters[] = "DIWE";
  stream_ << kLetters[static_cast<int>(level)] << " " << FormatTime(WallClock()) << " "
          << BaseName(file) << ":" << line << "] ";
}

LogLine::~LogLine() {
  stream_ << "\n";
  WriteLine(stream_.str());
}

void CheckFailed(const char* file, int line, const char* what, const char* why) {
  std::ostringstream text;
  text << "F " << FormatTime(WallClock()) << " " << BaseName(file) << ":" << line
       << "] check failed: " << what << (why[0] != 0 ? ": " : "") << why << "\n";
  WriteLine(text.str());
  std::abort();
}

}  // namespace rt
