#include "cli/render/man.h"

#include <algorithm>

#include "common/base/strings.h"

namespace rt {
namespace {

std::string Dashed(std::string command) {
  std::replace(command.begin(), command.end(), ' ', '-');
  return command;
}

// A backslash and a leading dot or quote mean something to roff; a plain "-" is a hyphen there.
std::string Escaped(const std::string& text) {
  std::string out;
  bool start = true;
  for (char c : text) {
    if (start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
    start = c == '\n';
  }
  return out;
}

}  // namespace

std::string ManFileName(const std::string& command) { return Dashed(command) + ".1"; }

std::string RenderMan(const ManPage& page) {
  std::string title = Dashed(page.command);
  std::string text = ".TH " + Escaped(title) + " 1 \"\" \"rt " RT_VERSION "\" \"rt\"\n";
  text += ".SH NAME\n" + Escaped(title) + " \\- " + Escaped(page.summary) + "\n";
  text += ".SH DESCRIPTION\n.nf\n" + Escaped(page.help);
  if (!text.ends_with('\n')) text += "\n";
  text += ".fi\n.SH \"EXIT STATUS\"\n0 ok, 1 it failed, 2 usage or a file that is wrong, 3 not "
          "found, 4 the head cannot be reached, 5 not allowed, 124 a wait timed out, 125 a "
          "foreground submit lost its way.\n";
  if (page.see_also.empty()) return text;
  text += ".SH \"SEE ALSO\"\n";
  for (size_t i = 0; i < page.see_also.size(); ++i)
    text += ".BR " + Escaped(Dashed(page.see_also[i])) + " (1)" +
            (i + 1 < page.see_also.size() ? ",\n" : "\n");
  return text;
}

}  // namespace rt
