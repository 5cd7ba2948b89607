"""What a second checkpoint costs when a few of its tensors changed and its header grew: files as
torch.save, safetensors and numpy write them.

    tensor_files.py BIN_DIRECTORY
"""

from __future__ import annotations

import filecmp
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop()) if len(sys.argv) > 1 else pathlib.Path("build/release/bin")


def cost(first: pathlib.Path, second: pathlib.Path) -> tuple[float, int]:
    """The share of the second folder's bytes that had to be stored, and in how many chunks the
    first was cut. What comes back must be what was stored."""
    out = second.with_name("restored")
    done = subprocess.run([BIN / "store_trees", out, first, second], check=True, text=True,
                          capture_output=True)
    (_, _, chunks), (size, stored, _) = ([int(word) for word in line.split()]
                                         for line in done.stdout.splitlines())
    for path in second.iterdir():
        assert filecmp.cmp(path, out / path.name, shallow=False), path
    return stored / size, chunks


class TensorFiles(unittest.TestCase):
    """Each writes two checkpoints: of 100 tensors 5 differ, and there is more beside them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rt-tensors-")
        self.addCleanup(folder.cleanup)
        self.first, self.second = (pathlib.Path(folder.name, name) for name in ("a", "b"))
        for path in (self.first, self.second):
            path.mkdir()

    def check(self) -> None:
        share, chunks = cost(self.first, self.second)
        self.assertLessEqual(share, 0.06)
        self.assertGreater(share, 0.04)  # Else nothing was compared.
        self.assertLess(chunks, 1_000)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
    def test_torch(self) -> None:
        """Large and small tensors, an optimizer's state, a pickle that grows."""
        import torch

        torch.manual_seed(1)
        weights = {f"layer.{i}.weight": torch.randn(300 + i, 700) for i in range(100)}
        biases = {f"layer.{i}.bias": torch.randn(300 + i) for i in range(100)}
        state = {"model": weights | biases, "epoch": 1, "note": "x"}
        torch.save(state, self.first / "model.pt")
        for i in range(3, 100, 20):
            weights[f"layer.{i}.weight"] += 1
        state = {"note": "x" * 5_000, "model": weights | biases, "more": list(range(99))}
        torch.save(state, self.second / "model.pt")
        self.check()

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs torch")
    def test_torch_model_and_optimizer(self) -> None:
        """As training writes them; only the last layer trains."""
        import torch

        torch.manual_seed(1)
        layers = [torch.nn.Linear(512, 512) for _ in range(24)]
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.Adam(layers[-1].parameters())
        for path in (self.first, self.second):
            for _ in range(2 if path == self.second else 1):
                model(torch.randn(8, 512)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                       path / "checkpoint.pt")
        share, _ = cost(self.first, self.second)
        self.assertLess(share, 3.2 / 26)  # One layer and its two moments, of 24 and these.

    def test_safetensors(self) -> None:
        """The header holds metadata that grows."""
        import numpy
        from safetensors.numpy import save_file

        draw = numpy.random.default_rng(1)
        tensors = {f"t{i:03}": draw.standard_normal((250 + i, 600), "float32") for i in range(100)}
        save_file(tensors, self.first / "model.safetensors", {"step": "1"})
        for i in range(3, 100, 20):
            tensors[f"t{i:03}"] += 1
        save_file(tensors, self.second / "model.safetensors", {"step": "2", "note": "x" * 3_000})
        self.check()

    def test_numpy(self) -> None:
        """numpy.savez, with an array more in front."""
        import numpy

        draw = numpy.random.default_rng(1)
        arrays = {f"t{i:03}": draw.standard_normal((250, 600), "float32") for i in range(100)}
        numpy.savez(self.first / "model.npz", **arrays)
        for i in range(3, 100, 20):
            arrays[f"t{i:03}"] += 1
        numpy.savez(self.second / "model.npz", a=numpy.arange(9), **arrays)
        self.check()


if __name__ == "__main__":
    unittest.main(verbosity=2)
