// `rt` as it is started: a small static program. `rt report` is done here, in a millisecond, so
// that shell trials may call it in a loop; every other command becomes rt-cli, which lies beside it
// and takes its time to load the libraries that it needs.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/report.h"

namespace {

// False for what the full command line must explain.
bool ParseReport(int argc, char** argv, rt::ReportRequest& request) {
  for (int i = 2; i < argc; ++i) {
    const char* text = argv[i];
    if (text[0] != '-') {
      request.assignments.emplace_back(text);
      continue;
    }
    if (std::strcmp(text, "--wait") == 0) {
      request.wait = true;
      continue;
    }
    const char* equals = std::strchr(text, '=');
    std::string word(text, equals == nullptr ? std::strlen(text) : size_t(equals - text)), value;
    if (equals != nullptr) value = equals + 1;
    else if (i + 1 < argc) value = argv[++i];
    if (value.empty()) return false;
    if (word == "--step") request.step = value;
    else if (word == "--checkpoint") request.checkpoint = value;
    else if ((word == "-o" || word == "--output") && (value == "json" || value == "table"))
      request.json = value == "json";
    else return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  rt::ReportRequest request;
  if (argc > 1 && std::strcmp(argv[1], "report") == 0 && ParseReport(argc, argv, request))
    return rt::Report(request);
  char path[4096 + sizeof "rt-cli"] = "";
  ssize_t size = ::readlink("/proc/self/exe", path, 4096);
  char* slash = size > 0 ? std::strrchr(path, '/') : nullptr;
  std::strcpy(slash == nullptr ? path : slash + 1, "rt-cli");
  ::execv(path, argv);
  std::fprintf(stderr, "rt: %s: %s\nhint: it belongs beside rt; install rt again\n", path,
               std::strerror(errno));
  return 125;
}
