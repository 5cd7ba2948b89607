// The archive of the programs that other machines get. It is made of the programs beside the one
// that makes it, so each test runs a copy of pack_programs in a folder of stand-ins.
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/strings.h"
#include "common/run/subprocess.h"
#include "tests/temp_dir.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

struct Packed {
  std::vector<std::string> files;  // Those of bin/.
  std::string said;
};

// What is packed where these programs are installed.
Packed Pack(const std::vector<std::string>& programs) {
  const TempDir folder("programs");
  fs::copy_file(RT_PACK_PROGRAMS, folder.path() + "/packs");
  // Any program will do; this one is small.
  for (const std::string& name : programs) fs::copy_file("/bin/true", folder.path() + "/" + name);
  const std::string made = folder.path() + "/made";
  const auto done = RunProgram({.argv = {folder.path() + "/packs", made}}, "", 60'000);
  REQUIRE(done.ok());
  INFO(done->output);
  REQUIRE(done->exit.ok());
  std::string archive;
  for (const auto& entry : fs::directory_iterator(made))
    if (entry.path().extension() == ".gz") archive = entry.path();
  const auto listed = RunProgram({.argv = {"tar", "-tzf", archive}}, "", 60'000);
  REQUIRE(listed.ok());
  Packed packed{.files = {}, .said = done->output};
  for (const std::string& line : Split(listed->output, '\n'))
    if (line.starts_with("bin/") && line != "bin/") packed.files.push_back(line.substr(4));
  return packed;
}

}  // namespace

TEST_CASE("programs: rt-probe comes along where it was built, and else one line says so") {
  const std::vector<std::string> all = {"rt",       "rt-cli",  "rt-gpu-suspend", "rt-head",
                                        "rt-probe", "rt-shim", "rt-worker"};
  const Packed with = Pack(all);
  CHECK(with.files == all);
  CHECK(with.said.find("no rt-probe") == std::string::npos);
  const Packed without = Pack({"rt", "rt-cli", "rt-head", "rt-shim", "rt-worker"});
  CHECK(without.files ==
        std::vector<std::string>{"rt", "rt-cli", "rt-head", "rt-shim", "rt-worker"});
  CHECK(without.said.find("other machines get no rt-probe: it was not built here") !=
        std::string::npos);
}

}  // namespace rt
