#include "common/aws/xml_tree.h"

#include <algorithm>
#include <pugixml.hpp>

#include "common/base/limits_aws.h"
#include "common/base/status.h"

namespace rt {
namespace {

std::string_view LocalName(std::string_view name) {
  const size_t colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

absl::Status Copy(const pugi::xml_node& from, int depth, XmlNode& to) {
  if (depth > limits::kXmlDepthMax) return Invalid("the XML answer is nested too deeply");
  to.name = std::string(LocalName(from.name()));
  for (const pugi::xml_node& child : from.children()) {
    if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) {
      to.text += child.value();
    } else if (child.type() == pugi::node_element) {
      to.children.emplace_back();
      RT_RETURN_IF_ERROR(Copy(child, depth + 1, to.children.back()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const XmlNode* XmlNode::Find(std::string_view path) const {
  const XmlNode* at = this;
  while (at != nullptr && !path.empty()) {
    const std::string_view wanted = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), wanted.size() + 1));
    const auto found = std::find_if(at->children.begin(), at->children.end(),
                                    [&](const XmlNode& child) { return child.name == wanted; });
    at = found == at->children.end() ? nullptr : &*found;
  }
  return at;
}

std::string XmlNode::Text(std::string_view path) const {
  const XmlNode* found = Find(path);
  return found == nullptr ? "" : found->text;
}

std::string XmlNode::AnyText(std::string_view element) const {
  if (name == element) return text;
  for (const XmlNode& child : children)
    if (std::string found = child.AnyText(element); !found.empty()) return found;
  return "";
}

const std::vector<XmlNode>& XmlNode::Items(std::string_view path) const {
  static const std::vector<XmlNode> none;
  const XmlNode* found = Find(path);
  return found == nullptr ? none : found->children;
}

absl::StatusOr<XmlNode> ParseXml(std::string_view text) {
  if (text.size() > limits::kXmlBytesMax) return Invalid("the XML answer is too long");
  // The library's memory grows with the elements: they are bounded before it sees them.
  const auto marks = static_cast<size_t>(std::count(text.begin(), text.end(), '<'));
  if (marks > 2 * limits::kXmlElementsMax) return Invalid("the XML answer has too many elements");
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed || !document.document_element())
    return Invalid("the answer is not XML, or was cut off: " + std::string(parsed.description()) +
                   " at byte " + std::to_string(parsed.offset) + " of " +
                   std::to_string(text.size()));
  XmlNode root;
  RT_RETURN_IF_ERROR(Copy(document.document_element(), 1, root));
  return root;
}

XmlNode ParseXmlOrNothing(std::string_view text) {
  absl::StatusOr<XmlNode> root = ParseXml(text);
  return root.ok() ? *std::move(root) : XmlNode{};
}

}  // namespace rt
