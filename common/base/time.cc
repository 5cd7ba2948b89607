#include "common/base/time.h"

#include <cstdio>
#include <ctime>

namespace rt {

std::string FormatTime(Millis at) {
  if (at == 0) return "";
  time_t seconds = static_cast<time_t>(at / 1000);
  struct tm parts {};
  gmtime_r(&seconds, &parts);
  char text[80];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(at % 1000));
  return text;
}

double ToSeconds(Millis span) { return static_cast<double>(span) / 1000.0; }

}  // namespace rt
