"""A cluster whose head keeps its state on a disk of its own, small enough to be filled: a tmpfs in
a mount namespace of this process and its children. Needs CAP_SYS_ADMIN."""

from __future__ import annotations

import ctypes
import os
import subprocess
import unittest

from harness import Cluster

CLONE_NEWNS = 0x20000


class FullDiskCase(unittest.TestCase):
    disk_size = "32m"
    workers, cpus = 2, 2

    def setUp(self) -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "unshare: this test needs CAP_SYS_ADMIN")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        self.cluster = Cluster(workers=self.workers, cpus=self.cpus)
        self.addCleanup(self.cluster.remove_files)  # When nothing is mounted below any more.
        self.disk = self.cluster.home / "disk"
        self.disk.mkdir()
        self.mount(f"size={self.disk_size},mode=0700")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.disk)], check=True)
        folder = self.cluster.home / "home/clusters/it"
        folder.mkdir(mode=0o700, parents=True)
        (folder / "head").symlink_to(self.disk)
        self.cluster.up()
        self.addCleanup(self.cluster.close)

    def mount(self, options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.disk)], check=True)

    def free(self) -> int:
        space = os.statvfs(self.disk)
        return space.f_bavail * space.f_frsize
