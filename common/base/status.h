// Helpers around absl::Status: early return, "what: why" context, and a place to keep the hint and
// the position that a user's mistake carries to the command line.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RT_RETURN_IF_ERROR(expression)                      \
  do {                                                      \
    if (absl::Status rt_status_ = (expression); !rt_status_.ok()) return rt_status_; \
  } while (false)

#define RT_CONCAT_INNER_(a, b) a##b
#define RT_CONCAT_(a, b) RT_CONCAT_INNER_(a, b)
#define RT_ASSIGN_OR_RETURN(declaration, expression)                                      \
  RT_ASSIGN_OR_RETURN_INNER_(RT_CONCAT_(rt_status_or_, __LINE__), declaration, expression)
#define RT_ASSIGN_OR_RETURN_INNER_(temporary, declaration, expression) \
  auto temporary = (expression);                                       \
  if (!temporary.ok()) return temporary.status();                      \
  declaration = std::move(temporary).value()

namespace rt {

// Our vocabulary is std::string_view; Debian's Abseil has its own, without conversion.
inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

// The same code with "context: " before the message; hints and positions are kept.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// What to do about it, shown on a line of its own. Carried as a payload, also over the wire.
absl::Status WithHint(absl::Status status, std::string_view hint);
std::string HintOf(const absl::Status& status);  // Empty when there is none.

// Where in the user's file the mistake is; line and column count from 1, 0 means unknown.
struct Position {
  std::string file;
  int line = 0;
  int column = 0;
};
absl::Status WithPosition(absl::Status status, const Position& position);
Position PositionOf(const absl::Status& status);  // Empty when there is none.

// Whether it may succeed later by itself: who was asked is away, slow or short of room.
bool IsTransient(const absl::Status& status);

absl::Status Invalid(std::string_view message, std::string_view hint = "");
absl::Status NotFound(std::string_view message, std::string_view hint = "");
// From errno: "open /x/y: No such file or directory", with a code that fits.
absl::Status ErrnoStatus(int error_number, std::string_view what);

}  // namespace rt
