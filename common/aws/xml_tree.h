// An XML answer of AWS as a tree of values: elements by name, the text of the leaves. Attributes,
// comments, processing instructions and document types are left out, so no entity is ever defined
// or expanded. Pure. An answer that is cut off, too large, too deep or of too many elements is an
// error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {

struct XmlNode {
  std::string name;  // Without a namespace's prefix.
  std::string text;  // Of the element itself, with the five entities undone.
  std::vector<XmlNode> children;

  // The first element at the end of a path such as "placement/availabilityZone"; null when there is
  // none.
  const XmlNode* Find(std::string_view path) const;
  // Its text; "" when there is none.
  std::string Text(std::string_view path) const;
  // The text of the first element of this name at any depth, this one included; "" when there is
  // none.
  std::string AnyText(std::string_view element) const;
  // The children of the element at the path: the items of a list. None when it is absent.
  const std::vector<XmlNode>& Items(std::string_view path) const;
};

absl::StatusOr<XmlNode> ParseXml(std::string_view text);
// Of an answer that may be none of the service, such as an error of a proxy: an element without a
// name then.
XmlNode ParseXmlOrNothing(std::string_view text);

}  // namespace rt
