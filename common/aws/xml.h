// As much of XML as S3 and STS answer with: elements found by name, their text with the five
// entities and character references undone. Pure; never fails: what is odd is not found.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rt {

// The content of each element of this name, in order; elements do not nest in their own kind.
std::vector<std::string_view> XmlElements(std::string_view text, std::string_view name);
// The first one's text; "" when there is none.
std::string XmlText(std::string_view text, std::string_view name);
// Undoes %XX, as in a list with encoding-type=url.
std::string PercentDecode(std::string_view text);

}  // namespace rt
