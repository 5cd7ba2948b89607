// The comparison of a working directory with its bundle, and the keeper of what it finds, with a
// store in memory and a head that does as it is told.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/patience.h"
#include "tests/unit/push_doubles.h"
#include "worker/checkpoint/output_keeper.h"
#include "worker/launch/run_dirs.h"
#include "worker/launch/work_dir.h"

namespace rt::worker {
namespace {
namespace fs = std::filesystem;

constexpr Millis kLater = Millis{1} << 50;  // After everything that a test writes.

std::vector<std::string> PathsOf(const Written& written) {
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : written.paths) paths.push_back(path);
  return paths;
}

// A bundle, and a working directory that began as it.
struct Place {
  Folder root;
  Place() {
    for (const char* name : {"a", "b", "sub/c"}) root.Write(std::string("tree/") + name, "text");
    fs::create_symlink("a", root.path + "/tree/link");
    LaunchBody body{{.bundle = "x"}};
    REQUIRE(MakeWorkDir(body, root.path + "/tree", root.path + "/work").ok());
  }
  std::string At(const std::string& name) const { return root.path + "/work/" + name; }
  Baseline base() const { return {root.path + "/tree", kLater}; }
  bool MayHave() const { return MayHaveWritten(root.path + "/work", base()); }
  Written Find(const WrittenBounds& bounds = {}) const {
    return FindWritten(root.path, {{"work", base()}}, bounds);
  }
};

TEST_CASE("written: a copy of the bundle is nothing new") {
  const Place place;
  CHECK_FALSE(place.MayHave());
  CHECK(place.Find().empty());
}

TEST_CASE("written: a new, a longer, an altered and an executable file, and a directory") {
  const Place place;
  place.root.Write("work/new/file", "new");
  place.root.Write("work/a", "longer text");
  REQUIRE(::unlink(place.At("b").c_str()) == 0);
  place.root.Write("work/b", "TEXT");
  REQUIRE(::chmod(place.At("sub/c").c_str(), 0700) == 0);
  fs::create_directories(place.At("empty"));
  CHECK(place.MayHave());
  const Written written = place.Find();
  CHECK(PathsOf(written) == std::vector<std::string>{"work/a", "work/b", "work/empty",
                                                     "work/new/file", "work/sub/c"});
  CHECK(written.files == 4);
  CHECK(written.bytes == 11 + 4 + 3 + 4);
}

TEST_CASE("written: a file that was only touched, or removed, is nothing new") {
  const Place place;
  REQUIRE(::utimensat(AT_FDCWD, place.At("a").c_str(), nullptr, 0) == 0);
  CHECK(place.MayHave());
  CHECK(place.Find().empty());
  REQUIRE(::unlink(place.At("a").c_str()) == 0);
  CHECK(place.Find().empty());
}

TEST_CASE("written: a file that was written again within one tick of the clock is found") {
  const Place place;
  struct stat info {};
  REQUIRE(::lstat(place.At("a").c_str(), &info) == 0);
  REQUIRE(WriteFileAtomic(place.At("a"), "TEXT", {.mode = info.st_mode & 0777}).ok());
  const timespec times[2] = {info.st_atim, info.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, place.At("a").c_str(), times, 0) == 0);
  const Millis unpacked = Millis{info.st_mtim.tv_sec} * 1'000;
  const Baseline soon{place.root.path + "/tree", unpacked + 20};
  CHECK(MayHaveWritten(place.root.path + "/work", soon));
  const Written written = FindWritten(place.root.path, {{"work", soon}}, {});
  CHECK(PathsOf(written) == std::vector<std::string>{"work/a"});
}

TEST_CASE("written: caches are left out without a word") {
  const Place place;
  for (const char* name : {"__pycache__/x", ".git/HEAD", "sub/.pytest_cache/y", ".checkpoint-1/z"})
    place.root.Write(std::string("work/") + name, "cache");
  place.root.Write("work/own/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
  place.root.Write("work/own/file", "cache");
  CHECK_FALSE(place.MayHave());
  CHECK(place.Find().empty());
}

TEST_CASE("written: links are kept below the root, never followed, and named otherwise") {
  const Place place;
  Folder outside;
  outside.Write("secret", "secret");
  fs::create_symlink("a", place.At("inside"));
  fs::create_symlink(outside.path, place.At("directory"));
  fs::create_symlink("../../../etc/passwd", place.At("above"));
  REQUIRE(::mkfifo(place.At("pipe").c_str(), 0600) == 0);
  REQUIRE(::link(place.At("a").c_str(), place.At("hard").c_str()) == 0);
  const Written written = place.Find();
  CHECK(PathsOf(written) == std::vector<std::string>{"work/hard", "work/inside"});
  std::vector<std::string> named;
  for (const NotKept& one : written.left_out) named.push_back(one.path);
  CHECK(named == std::vector<std::string>{"work/above", "work/directory", "work/pipe"});
}

TEST_CASE("written: a working directory that was replaced by a link is not followed") {
  const Place place;
  Folder outside;
  outside.Write("secret", "secret");
  REQUIRE(RemoveTree(place.root.path + "/work").ok());
  fs::create_symlink(outside.path, place.root.path + "/work");
  CHECK(place.MayHave());
  const Written written = place.Find();
  CHECK(written.paths.empty());
  REQUIRE(written.left_out.size() == 1);
  CHECK(written.left_out[0].path == "work");
}

TEST_CASE("written: beyond the bounds the larger files are left out, by name") {
  const Place place;
  place.root.Write("work/large", std::string(100, 'x'));
  place.root.Write("work/small", "x");
  place.root.Write("work/middle", std::string(10, 'x'));
  Written written = place.Find({.bytes = 11});
  CHECK(PathsOf(written) == std::vector<std::string>{"work/middle", "work/small"});
  REQUIRE(written.left_out.size() == 1);
  CHECK(written.left_out[0].path == "work/large");
  CHECK(written.left_out[0].bytes == 100);
  CHECK(written.left_out_bytes == 100);
  written = place.Find({.files = 1});
  CHECK(PathsOf(written) == std::vector<std::string>{"work/small"});
  CHECK(written.left_out.size() == 2);
  CHECK(written.left_out[0].path == "work/large");  // The largest first.
}

TEST_CASE("written: a directory of more entries than are looked at may hold something new") {
  const Folder root;
  for (int i = 0; i < 1'001; ++i) root.Write("tree/" + std::to_string(i), "");
  REQUIRE(MakeWorkDir(LaunchBody{{.bundle = "x"}}, root.path + "/tree", root.path + "/work").ok());
  const Baseline base{root.path + "/tree", kLater};
  CHECK(MayHaveWritten(root.path + "/work", base));
  CHECK(FindWritten(root.path, {{"work", base}}, {}).empty());
}

// A head that takes outputs, or is away.
class OutputHead : public OutputCalls {
 public:
  absl::Status KeepOutputs(const Fence& fence, const SentOutputs& outputs) override {
    std::lock_guard lock(mutex_);
    ++asked_;
    changed_.notify_all();
    if (!answer_.ok()) return answer_;
    kept_[fence] = outputs;
    changed_.notify_all();
    return absl::OkStatus();
  }
  void Answer(absl::Status answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  SentOutputs Await(const Fence& fence) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return kept_.contains(fence); }));
    return kept_.at(fence);
  }
  void AwaitAsked(int times) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return asked_ >= times; }));
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return kept_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status answer_;
  int asked_ = 0;
  std::map<Fence, SentOutputs> kept_;
};

// A store without room for more, from the first chunk on.
class FullStore : public MemStore {
 public:
  absl::Status PutChunk(const std::string&, std::string_view) override {
    return absl::ResourceExhaustedError("the store has no room");
  }
};

struct Node {
  Folder folder;
  MemStore memory;
  FullStore full;
  bool is_full = false;
  LocalTrees local{folder.path + "/checkpoints", {}};
  TreeFetcher fetcher{memory, local};
  TreeCache cache{folder.path + "/cache", fetcher};
  OutputHead head;
  std::unique_ptr<RunDirs> dirs;
  std::unique_ptr<OutputKeeper> keeper;
  Bytes bytes = 1 << 20;
  Millis wait_for_space = 200;
  size_t waiting_max = 100;

  Node() { Restart(); }
  // As the next daemon, which has found the attempts that are left.
  void Restart() {
    keeper.reset();
    dirs = std::make_unique<RunDirs>(folder.path);
    keeper = std::make_unique<OutputKeeper>(OutputOptions{.state_dir = folder.path,
                                                          .bytes = bytes,
                                                          .wait_for_space = wait_for_space,
                                                          .waiting_max = waiting_max},
                                            is_full ? static_cast<BlobStore&>(full) : memory, head,
                                            cache, [] {});
    keeper->Start();
  }
  LaunchBody Run(const Fence& fence, const std::string& text) {
    LaunchBody body{{.fence = fence}};
    body.started_at = kLater;
    REQUIRE(dirs->Make(fence).ok());
    const RunDir dir = dirs->Of(fence);
    REQUIRE(RunDirs::Write(dir.body(), ToJson(body).Dump()).ok());
    REQUIRE(MakeWorkDir(body, "", dir.work()).ok());
    if (!text.empty()) REQUIRE(WriteFileAtomic(dir.work() + "/written", text).ok());
    return body;
  }
  void End(const LaunchBody& body) {
    keeper->Expect(body.fence);
    keeper->Take(body, dirs->Of(body.fence), 0);
    REQUIRE(dirs->Retire(body.fence).ok());
    keeper->Keep(body.fence);
  }
  void AwaitDone() const {
    for (int i = 0; i < 2'000 && !keeper->Pending().empty(); ++i) ::usleep(10'000);
    CHECK(keeper->Pending().empty());
    CHECK((!Exists(folder.path + "/outputs") || fs::is_empty(folder.path + "/outputs")));
  }
  std::string Stored(const SentOutputs& sent, const std::string& path) {
    TempDir to("restored");
    REQUIRE(RestoreTree(memory, sent.manifest, to.path()).ok());
    return *ReadFile(to.path() + "/" + path);
  }
};

TEST_CASE("outputs: what was written is in the store when the head hears of it, and gone here") {
  Node node;
  node.End(node.Run(kFence, "text"));
  const SentOutputs sent = node.head.Await(kFence);
  CHECK(sent.paths == std::vector<std::string>{"work/written"});
  CHECK((sent.files == 1 && sent.bytes == 4));
  CHECK(node.Stored(sent, "work/written") == "text");
  node.AwaitDone();
}

TEST_CASE("outputs: nothing written is nothing to keep, and nothing waits for it") {
  Node node;
  node.End(node.Run(kFence, ""));
  CHECK(node.keeper->Pending().empty());
  node.AwaitDone();
  CHECK(node.head.count() == 0);
}

TEST_CASE("outputs: an attempt is pending from when it is expected until the head has heard") {
  Node node;
  node.head.Answer(absl::UnavailableError("away"));
  const LaunchBody body = node.Run(kFence, "text");
  node.keeper->Expect(kFence);
  CHECK(node.keeper->Pending() == std::vector<Fence>{kFence});
  node.End(body);
  node.head.AwaitAsked(2);
  CHECK(node.keeper->Pending() == std::vector<Fence>{kFence});
  node.head.Answer(absl::OkStatus());
  node.head.Await(kFence);
  node.AwaitDone();
}

TEST_CASE("outputs: what nobody wants is removed") {
  Node node;
  node.head.Answer(absl::FailedPreconditionError("a later attempt"));
  node.End(node.Run(kFence, "text"));
  node.AwaitDone();
  CHECK(node.head.count() == 0);
}

TEST_CASE("outputs: the next daemon continues with what was taken") {
  Node node;
  node.head.Answer(absl::UnavailableError("away"));
  node.End(node.Run(kFence, "text"));
  node.head.AwaitAsked(1);
  node.Restart();
  CHECK(node.keeper->Pending() == std::vector<Fence>{kFence});
  node.head.Answer(absl::OkStatus());
  CHECK(node.Stored(node.head.Await(kFence), "work/written") == "text");
  node.AwaitDone();
}

TEST_CASE("outputs: a daemon that died while it took them leaves nothing half kept") {
  for (const bool is_forgotten : {false, true}) {
    Node node;
    const LaunchBody body = node.Run(kFence, "text");
    const std::string part = node.folder.path + "/outputs/" + ToString(kFence) + ".part";
    REQUIRE(EnsureDirectory(part).ok());
    const RunDir dir = node.dirs->Of(kFence);
    fs::rename(dir.work(), part + "/work");
    fs::rename(dir.trial(), part + "/trial");
    if (is_forgotten) {  // All of it was taken.
      fs::rename(dir.body(), part + "/body.json");
      REQUIRE(RemoveTree(dir.path).ok());
    }
    node.Restart();
    if (!is_forgotten) {
      CHECK(node.keeper->Pending().empty());  // The head still hears that it has ended.
      node.End(body);
    }
    CHECK(node.Stored(node.head.Await(kFence), "work/written") == "text");
    node.AwaitDone();
  }
}

TEST_CASE("outputs: they wait for space in the store, and then the lost ones are named") {
  Node node;
  node.is_full = true;
  node.Restart();
  node.End(node.Run(kFence, "text"));
  const SentOutputs sent = node.head.Await(kFence);
  CHECK(sent.manifest.empty());
  REQUIRE(sent.left_out.size() == 1);
  CHECK(sent.left_out[0].path == "work/written");
  CHECK(sent.left_out[0].reason.find("no room") != std::string::npos);
  node.AwaitDone();
}

TEST_CASE("outputs: the ranks of an attempt share the bound, and their paths say who wrote them") {
  Node node;
  node.bytes = 20;
  node.Restart();
  Fence second = kFence;
  second.rank = 1;
  LaunchBody body = node.Run(second, std::string(11, 'x'));
  body.world_size = 2;
  REQUIRE(RunDirs::Write(node.dirs->Of(second).body(), ToJson(body).Dump()).ok());
  REQUIRE(WriteFileAtomic(node.dirs->Of(second).trial() + "/small", "x").ok());
  node.End(body);
  const SentOutputs sent = node.head.Await(second);
  CHECK(sent.paths == std::vector<std::string>{"rank-1/trial/small"});
  REQUIRE(sent.left_out.size() == 1);
  CHECK(sent.left_out[0].path == "rank-1/work/written");
}

TEST_CASE("outputs: with a bound of 0 nothing is kept and nothing is said") {
  Node node;
  node.bytes = 0;
  node.Restart();
  node.End(node.Run(kFence, "text"));
  CHECK(node.keeper->Pending().empty());
  node.AwaitDone();
  CHECK(node.head.count() == 0);
}

TEST_CASE("outputs: so many that wait keep what is new from starting") {
  Node node;
  node.waiting_max = 2;
  node.Restart();
  node.head.Answer(absl::UnavailableError("away"));
  for (uint32_t number = 1; number <= 2; ++number) {
    CHECK_FALSE(node.keeper->IsFull());
    Fence fence = kFence;
    fence.attempt.number = number;
    node.End(node.Run(fence, "text"));
  }
  CHECK(node.keeper->IsFull());
  node.head.Answer(absl::OkStatus());
  node.AwaitDone();
  CHECK_FALSE(node.keeper->IsFull());
}

TEST_CASE("outputs: the next daemon, too, leaves out what a checkpoint has") {
  Node node;
  node.head.Answer(absl::UnavailableError("away"));
  const LaunchBody body = node.Run(kFence, "text");
  const RunDir dir = node.dirs->Of(kFence);
  REQUIRE(WriteFileAtomic(dir.trial() + "/model", "model").ok());
  const auto stored = StoreTree(node.memory, dir.trial() + "/model", {});
  REQUIRE(stored.ok());
  REQUIRE(NoteReported(dir, "trial/model", {.seq = 1}, true, stored->text).ok());
  node.End(body);
  node.head.AwaitAsked(1);
  node.Restart();
  node.head.Answer(absl::OkStatus());
  CHECK(node.head.Await(kFence).paths == std::vector<std::string>{"work/written"});
  node.AwaitDone();
}

TEST_CASE("outputs: a directory that its owner closed is taken all the same") {
  Node node;
  const LaunchBody body = node.Run(kFence, "text");
  REQUIRE(::chmod(node.dirs->Of(kFence).work().c_str(), 0500) == 0);
  node.End(body);
  CHECK(node.Stored(node.head.Await(kFence), "work/written") == "text");
  node.AwaitDone();
}

TEST_CASE("outputs: a file that is gone or grew while it was read is stored as it was chosen") {
  const Folder root;
  root.Write("work/grown", "text and more");
  root.Write("work/there", "there");
  std::map<std::string, std::string> unreadable;
  const std::map<std::string, Bytes> only = {{"work/grown", 4}, {"work/there", 5},
                                             {"work/gone", 3}};
  MemStore store;
  const auto stored = StoreTree(store, root.path, {.only = &only, .unreadable = &unreadable});
  REQUIRE(stored.ok());
  CHECK((stored->files == 2 && stored->bytes == 9));
  TempDir to("restored");
  REQUIRE(RestoreTree(store, stored->manifest, to.path()).ok());
  CHECK(*ReadFile(to.path() + "/work/grown") == "text");
}

}  // namespace
}  // namespace rt::worker
