// What is said of the snapshot that `rt submit` takes along.
#include <catch2/catch.hpp>

#include "cli/snapshot.h"

using namespace rt;

TEST_CASE("snapshot: a large one names what takes the room, a usual one nothing") {
  TreeSize size{.bytes = Bytes{423} << 20, .files = 9};
  size.entries = {{"data/", Bytes{400} << 20}, {"train.py", 10}};
  CHECK(LargeSnapshotText(size) ==
        "snapshot: 423.0 MiB in 9 files; the largest: data/ 400.0 MiB; add it to .rtignore to "
        "leave it out");
  size.bytes = Bytes{99} << 20;
  CHECK(LargeSnapshotText(size).empty());
}

TEST_CASE("snapshot: what was left out has its reason, and a directory says how to take it along") {
  CHECK(LeftOutLines({{"bin/python3", "it links outside the directory"},
                      {"wv/", "a virtual environment"}}) ==
        std::vector<std::string>{
            "left out bin/python3: it links outside the directory",
            "left out wv/: a virtual environment ('!wv/' in .rtignore takes it along)"});
}
