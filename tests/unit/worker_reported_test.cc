// Files that are in a checkpoint are not kept a second time as outputs.
#include <filesystem>

#include "tests/unit/push_doubles.h"
#include "worker/session/reported_files.h"
#include "worker/session/written.h"

namespace rt::worker {
namespace {
namespace fs = std::filesystem;

// A run directory whose trial made two files in a folder of its own, and something else.
struct Place {
  Folder root;
  RunDir dir{root.path};
  MemStore store;

  Place() {
    for (const char* name : {"trial/epoch-1/model", "trial/epoch-1/deep/state", "trial/notes",
                             "work/result"})
      root.Write(name, name);
    fs::create_symlink("model", root.path + "/trial/epoch-1/latest");
    fs::create_directories(root.path + "/trial/epoch-1/empty");
  }
  std::string At(const std::string& name) const { return root.path + "/" + name; }
  // As a checkpoint that came with row `seq` is noted once it is committed.
  void Report(const std::string& name, uint64_t seq = 1, bool is_whole = true) {
    const auto stored = StoreTree(store, At(name), {});
    REQUIRE(stored.ok());
    SpoolRow row;
    row.seq = seq;
    REQUIRE(NoteReported(dir, OutputPathOf(dir, 0, At(name)), row, is_whole, stored->text).ok());
  }
  std::vector<std::string> Outputs(uint64_t whole_seq = 0) const {
    ReportedFiles reported(dir.reported(), whole_seq);
    const Written written = FindWritten(root.path, {{"trial", {}}, {"work", {}}}, {}, &reported);
    std::vector<std::string> paths;
    for (const auto& [path, bytes] : written.paths) paths.push_back(path);
    return paths;
  }
};
using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("reported: a folder that was reported as a checkpoint is left out of the outputs") {
  Place place;
  CHECK(place.Outputs().size() == 6);
  place.Report("trial/epoch-1");
  CHECK(place.Outputs() == Paths{"trial/notes", "work/result"});
}

TEST_CASE("reported: what was changed or added after the newest report is kept") {
  Place place;
  place.Report("trial/epoch-1");
  place.root.Write("trial/epoch-1/model", "trial/epoch-1/MODEL");  // Of the same size.
  place.root.Write("trial/epoch-1/deep/more", "more");
  REQUIRE(::unlink(place.At("trial/epoch-1/latest").c_str()) == 0);
  fs::create_symlink("deep/more", place.At("trial/epoch-1/latest"));
  CHECK(place.Outputs() == Paths{"trial/epoch-1/deep/more", "trial/epoch-1/latest",
                                 "trial/epoch-1/model", "trial/notes", "work/result"});
  place.Report("trial/epoch-1", 2);
  CHECK(place.Outputs() == Paths{"trial/notes", "work/result"});
}

TEST_CASE("reported: a file that was reported alone is left out, and its neighbours are kept") {
  Place place;
  place.Report("work/result");
  place.Report("trial/epoch-1/deep");
  CHECK(place.Outputs() == Paths{"trial/epoch-1/empty", "trial/epoch-1/latest",
                                 "trial/epoch-1/model", "trial/notes"});
}

TEST_CASE("reported: a part of a gang's checkpoint counts once the checkpoint is complete") {
  Place place;
  place.Report("trial/epoch-1", 5, /*is_whole=*/false);
  CHECK(place.Outputs(4).size() == 6);
  CHECK(place.Outputs(5).size() == 2);
}

TEST_CASE("reported: paths are named as the outputs name them, and only below the two folders") {
  const Place place;
  const RunDir& dir = place.dir;
  CHECK(OutputPathOf(dir, 0, place.At("trial/epoch-1")) == "trial/epoch-1");
  CHECK(OutputPathOf(dir, 2, place.At("work/../work/result")) == "rank-2/work/result");
  CHECK(OutputPathOf(dir, 0, place.At("trial/epoch-1/latest")) == "trial/epoch-1/model");
  for (const char* path : {"trial", "work", "saved", "trial/absent"})
    CHECK(OutputPathOf(dir, 0, place.At(path)).empty());
  CHECK(OutputPathOf(dir, 0, "/tmp").empty());
}

TEST_CASE("reported: only a checkpoint that was committed leaves a note, and given files none") {
  for (const bool is_refused : {true, false}) {
    for (const bool is_given : {true, false}) {
      Folder folder;
      SlowHead head;
      Daemon daemon(folder, head);
      if (is_refused) head.Refuse();
      folder.Write("run/trial/epoch-1/model", "text");
      const std::string path = folder.path + "/run/trial/epoch-1";
      REQUIRE(daemon.Take(1, path, is_given).ok());
      head.Open();
      daemon.AwaitIdle();
      folder.Write("run/trial/epoch-1/model", "text");
      struct stat info {};
      REQUIRE(::stat((path + "/model").c_str(), &info) == 0);
      ReportedFiles reported(daemon.attempt->dir().reported(), 0);
      CHECK(reported.Has("trial/epoch-1/model", path + "/model", info) ==
            (!is_refused && !is_given));
    }
  }
}

}  // namespace rt::worker
