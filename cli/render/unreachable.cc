#include "cli/render/unreachable.h"

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

struct Translation {
  std::string_view grpc;  // Part of the text of gRPC 1.51 or of the system.
  std::string_view words;
};
constexpr Translation kTranslations[] = {
    {"Connection refused", "the connection was refused"},
    {"No route to host", "there is no route to that machine"},
    {"Network is unreachable", "this machine has no network that leads there"},
    {"DNS resolution failed", "its name is not known here"},
    {"imed out", "it does not answer"},
    {"imeout", "it does not answer"},
    {"Deadline Exceeded", "it does not answer"},
    {"Connection reset", "it closed the connection"},
    {"Broken pipe", "it closed the connection"},
    {"Socket closed", "it closed the connection"},
    {"GOAWAY", "it closed the connection"},
    {"Handshake", "what answers there does not speak TLS"},
    {"failed to connect to all addresses", "no connection can be made"},
};

}  // namespace

std::string TransportReason(std::string_view message) {
  for (const Translation& translation : kTranslations)
    if (message.find(translation.grpc) != std::string_view::npos)
      return std::string(translation.words);
  return std::string(message);
}

absl::Status Unreachable(const AskedHead& head, std::string_view reason) {
  const std::string at = head.address.empty() ? "" : " at " + head.address;
  const std::string message = "the head of '" + head.cluster + "'" + at +
                              " cannot be reached: " + TransportReason(reason);
  const std::string look = "'rt doctor -c " + head.cluster + "' looks closer";
  if (!head.local_directory.empty())
    return WithHint(absl::UnavailableError(ToAbsl(message)),
                    look + "; the head's log is " + head.local_directory + "/head/log");
  return WithHint(absl::UnavailableError(ToAbsl(message)),
                  "check that rt-head runs there and that its port is open; " + look +
                      ", and 'rt context list' shows which heads answer");
}

}  // namespace rt
