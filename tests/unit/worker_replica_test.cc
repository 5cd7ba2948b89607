// Checkpoints that count before the store has them.
#include <catch2/catch.hpp>

#include "tests/patience.h"
#include "tests/unit/push_doubles.h"

namespace rt::worker {

TEST_CASE("where the disk is enough, the commit does not wait for the store, which gets it later") {
  Folder folder;
  SlowHead head;
  head.Open();
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  head.Await([](const SlowHead& h) { return h.committed_.size() == 1 && !h.statuses_.empty(); });
  CHECK(head.safe_.front().is_replica);
  CHECK(head.safe_.front().peers.empty());
  const std::string manifest = head.committed_.front().second;
  CHECK(absl::IsNotFound(daemon.store.GetManifest(manifest).status()));
  CHECK(daemon.pusher.HasUnstored(kFence.attempt.owner));
  head.SetWants(true);
  daemon.AwaitStored();
  CHECK(head.statuses_.back() == std::pair{manifest, ReplicaStatus::kStored});
  CHECK(daemon.store.GetManifest(manifest).ok());
  daemon.AwaitReleased();
  CHECK(daemon.trees.GetManifest(manifest).ok());  // Kept, for whoever restores it here.
}

TEST_CASE("a checkpoint that is not needed any more is not uploaded") {
  Folder folder;
  SlowHead head;
  head.Open();
  head.SetWants(false);
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  daemon.AwaitStored();
  CHECK(absl::IsNotFound(daemon.store.GetManifest(head.committed_.front().second).status()));
  daemon.AwaitReleased();
}

TEST_CASE("during an upload, replicas that newer ones have replaced are released") {
  Folder folder;
  SlowHead head;
  head.Open();
  Daemon daemon(folder, head, DurableAfter::kLocal);
  daemon.store.SetOpen(false);
  Save(folder, daemon, 1, "1");
  head.SetWants(true);
  daemon.store.AwaitPush();
  head.SetWants(false);
  const size_t more_than_wait = 8;
  for (size_t seq = 2; seq <= more_than_wait; ++seq) {
    Save(folder, daemon, seq, std::to_string(seq));
    head.Await([seq](const SlowHead& h) { return h.committed_.size() == seq; });
    CHECK(head.safe_.back().is_replica);
    const std::string manifest = head.committed_.back().second;
    head.Await([&](const SlowHead& h) { return h.statuses_.back().first == manifest; });
  }
  CHECK(daemon.pusher.HasUnstored(kFence.attempt.owner));
  daemon.store.SetOpen(true);
  daemon.AwaitStored();
  CHECK(daemon.store.GetManifest(head.committed_.front().second).ok());
  CHECK(absl::IsNotFound(daemon.store.GetManifest(head.committed_.back().second).status()));
}

TEST_CASE("the next daemon uploads the replicas of the previous one") {
  Folder folder;
  SlowHead head;
  head.Open();
  std::string manifest;
  {
    Daemon daemon(folder, head, DurableAfter::kLocal);
    Save(folder, daemon, 1, "1");
    daemon.AwaitIdle();
    manifest = head.committed_.front().second;
  }
  Daemon daemon(folder, head, DurableAfter::kLocal);
  CHECK(daemon.pusher.HasUnstored(kFence.attempt.owner));
  head.SetWants(true);
  daemon.AwaitStored();
  CHECK(daemon.store.GetManifest(manifest).ok());
  CHECK(head.committed_.size() == 1);
}

TEST_CASE("with a peer it is committed with that replica; without one it goes to the store") {
  Folder folder;
  SlowHead head;
  head.Open();
  OnePeer peer;
  Daemon daemon(folder, head, DurableAfter::kPeer, &peer);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  CHECK(head.safe_.back().peers == std::vector<uint64_t>{7});
  peer.has_space = false;
  Save(folder, daemon, 2, "2");
  daemon.AwaitIdle();
  CHECK(peer.asked == 2);
  CHECK_FALSE(head.safe_.back().is_replica);
  CHECK(daemon.store.GetManifest(head.committed_.back().second).ok());
  CHECK(daemon.trees.Replicas().size() == 1);  // The first.
}

TEST_CASE("no replica is left of an attempt that is forgotten during the upload") {
  Folder folder;
  SlowHead head;
  head.Open();
  OnePeer peer;
  peer.has_space = false;
  Daemon daemon(folder, head, DurableAfter::kPeer, &peer);
  daemon.store.SetOpen(false);
  Save(folder, daemon, 1, "1");
  daemon.store.AwaitPush();
  CHECK(daemon.trees.Replicas().size() == 1);
  CHECK_FALSE(daemon.pusher.uploader().IsDone());
  daemon.pusher.Forget(kFence);
  daemon.store.SetOpen(true);
  {
    std::unique_lock lock(daemon.mutex);
    REQUIRE(
        daemon.idle.wait_for(lock, kPatience, [&] { return daemon.pusher.uploader().IsDone(); }));
  }
  daemon.AwaitReleased();
}

TEST_CASE("a replica that has changed is not committed") {
  Folder folder;
  SlowHead head;
  head.Open();
  OnePeer peer;
  peer.has_space = false;  // So that it goes to the store at once, from where it is held.
  Daemon daemon(folder, head, DurableAfter::kPeer, &peer);
  std::atomic<bool> is_changed = false;
  peer.on_asked = [&] {  // On a thread of the pusher, where nothing may be checked.
    const std::string held = daemon.trees.ReplicaAt(daemon.trees.Replicas().front().manifest);
    is_changed = WriteFileAtomic(held + "/x", "other").ok();
  };
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  CHECK(is_changed);
  CHECK(peer.asked == 1);
  CHECK(head.committed_.empty());
  CHECK(daemon.trees.Replicas().empty());
  CHECK(daemon.pusher.uploader().IsDone());
}

TEST_CASE("bytes that have gone are said to be, and nothing else is pushed for them") {
  Folder folder;
  SlowHead head;
  head.Open();
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  const std::string manifest = head.committed_.front().second;
  REQUIRE(WriteFileAtomic(daemon.trees.ReplicaAt(manifest) + "/x", "2").ok());
  head.SetWants(true);
  daemon.AwaitStored();
  CHECK(head.statuses_.back() == std::pair{manifest, ReplicaStatus::kGone});
  CHECK(absl::IsNotFound(daemon.store.GetManifest(manifest).status()));
}

TEST_CASE("a replica whose commit is refused is released, unless an earlier try arrived") {
  const bool heard = GENERATE(false, true);
  Folder folder;
  SlowHead head;
  head.Refuse();
  head.Open();
  head.SetWants(heard);
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  daemon.AwaitStored();
  daemon.AwaitReleased();
  REQUIRE_FALSE(head.statuses_.empty());  // The head was asked before anything was let go.
  CHECK(daemon.store.GetManifest(head.statuses_.back().first).ok() == heard);
}

TEST_CASE("a replica that may never be committed stays for a while, and no trial waits for it") {
  Folder folder;
  SlowHead head;
  head.SetWants(false);
  Daemon daemon(folder, head);
  folder.Write("a/x", "1");
  MemStore elsewhere;
  const StoredTree tree = *StoreTree(elsewhere, folder.path + "/a", {});
  const absl::Status held =
      daemon.trees.AddReplica(kFence, tree.manifest, tree.text, folder.path + "/a", FileClock());
  REQUIRE(held.ok());
  daemon.pusher.uploader().AddUnsure(kFence, tree.manifest, 7);
  daemon.AwaitStored();
  CHECK(daemon.pusher.uploader().IsDone());
  CHECK(daemon.trees.Replicas().size() == 1);
  // The head knows whether a commit of that row may come.
  const auto await_question = [&head] {
    const size_t asked = head.CountStatus();
    head.Await([asked](const SlowHead& h) { return h.statuses_.size() >= asked + 2; });
  };
  head.SetSettled(6);
  await_question();
  CHECK(daemon.trees.Replicas().size() == 1);
  head.SetSettled(7);
  daemon.AwaitReleased();
}

TEST_CASE("an answer about an earlier replica does not release a newer one") {
  Folder folder;
  SlowHead head;
  head.SetWants(false);
  Daemon daemon(folder, head);
  folder.Write("a/x", "1");
  MemStore elsewhere;
  const StoredTree tree = *StoreTree(elsewhere, folder.path + "/a", {});
  ReplicaUploader& uploader = daemon.pusher.uploader();
  uploader.Expect(kFence, tree.manifest);
  const absl::Status taken =
      daemon.trees.AddReplica(kFence, tree.manifest, tree.text, folder.path + "/a", FileClock());
  REQUIRE(taken.ok());
  std::atomic<bool> is_here = false;
  head.on_question_ = [&] {
    uploader.Expect(kFence, tree.manifest);
    is_here = daemon.trees.ShareReplica(kFence, tree.manifest);
    uploader.AddUnsure(kFence, tree.manifest, 1);
  };
  uploader.Add(kFence, tree.manifest, 1);
  // It is still held, and asks again.
  head.Await([](SlowHead& h) { return h.statuses_.size() >= 2; });
  CHECK(is_here);
  CHECK(daemon.trees.Replicas().size() == 1);
}

}  // namespace rt::worker
