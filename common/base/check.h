// RT_CHECK: our own mistakes end the process, in release builds too; replay is the recovery.
#pragma once

namespace rt {
[[noreturn]] void CheckFailed(const char* file, int line, const char* what, const char* why);
}  // namespace rt

#define RT_CHECK(condition) \
  ((condition) ? (void)0 : ::rt::CheckFailed(__FILE__, __LINE__, #condition, ""))
// With a reason, a C string, for the reader of the crash.
#define RT_CHECK_BECAUSE(condition, why) \
  ((condition) ? (void)0 : ::rt::CheckFailed(__FILE__, __LINE__, #condition, why))
