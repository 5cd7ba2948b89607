// The log: one line per event on standard error (or the file the daemon's standard error is).
// Thread-safe. Secrets never reach it: callers log names and ids, not contents.
//   RT_LOG(kInfo) << "node " << name << " joined";
#pragma once

#include <sstream>

namespace rt {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// Lines below this level are dropped. The default is kInfo.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();

class LogLine {
 public:
  LogLine(LogLevel level, const char* file, int line);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  std::ostringstream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace rt

#define RT_LOG(level)                                            \
  if (::rt::LogLevel::level < ::rt::GetLogLevel()) {             \
  } else                                                         \
    ::rt::LogLine(::rt::LogLevel::level, __FILE__, __LINE__).stream()
