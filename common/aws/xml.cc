#include "common/aws/xml.h"

#include "common/base/strings.h"

namespace rt {
namespace {

struct Entity {
  std::string_view name;
  char value;
};
constexpr Entity kEntities[] = {{"&lt;", '<'},    {"&gt;", '>'},  {"&amp;", '&'}, {"&quot;", '"'},
                                {"&apos;", '\''}, {"&#34;", '"'}, {"&#39;", '\''}};

std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    char c = text[at];
    for (const Entity& entity : kEntities)
      if (text.substr(at).starts_with(entity.name)) {
        c = entity.value;
        length = entity.name.size();
        break;
      }
    plain += c;
    at += length;
  }
  return plain;
}

}  // namespace

std::vector<std::string_view> XmlElements(std::string_view text, std::string_view name) {
  std::vector<std::string_view> found;
  const std::string open = "<" + std::string(name), close = "</" + std::string(name) + ">";
  for (size_t at = text.find(open); at != std::string_view::npos; at = text.find(open, at)) {
    at += open.size();
    // Behind the name: attributes or nothing, not a longer name.
    if (at >= text.size() || (text[at] != '>' && text[at] != ' ' && text[at] != '/')) continue;
    const size_t begin = text.find('>', at);
    if (begin == std::string_view::npos) break;
    if (text[begin - 1] == '/') {
      found.emplace_back();
      continue;
    }
    const size_t end = text.find(close, begin);
    if (end == std::string_view::npos) break;
    found.push_back(text.substr(begin + 1, end - begin - 1));
    at = end;
  }
  return found;
}

std::string XmlText(std::string_view text, std::string_view name) {
  auto found = XmlElements(text, name);
  return found.empty() ? "" : Unescaped(found.front());
}

std::string PercentDecode(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    auto byte =
        text[at] == '%' && at + 2 < text.size() ? FromHex(text.substr(at + 1, 2)) : std::nullopt;
    if (byte.has_value() && byte->size() == 1) {
      plain += *byte;
      at += 2;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

}  // namespace rt
