"""The examples in PyTorch, run as their README says, on real data."""

import re
import unittest

from examples import Examples
from harness import has

HAS_TORCH = has("torch", "sklearn")


@unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
class TorchTest(Examples):
    def test_class_listing(self) -> None:
        best = self.best(self.run_example("listings/class_mnist.py"))
        self.assertIn(best["lr"], (0.001, 0.01, 0.1))
        folder = next(self.place.results.iterdir()).name
        for trial in range(3):
            rows = self.place.rows(folder, trial)
            self.assertEqual([row["training_iteration"] for row in rows], list(range(1, 51)))

    def test_function_listing(self) -> None:
        best = self.best(self.run_example("listings/function_mnist.py"))
        self.assertEqual(set(best), {"lr", "momentum"})

    def test_the_parts_of_an_introduction_to_ray_train(self) -> None:
        text = self.run_example("listings/train_article.py")
        self.assertLess(float(re.search(r"loss ([\d.e-]+) \['model.pt'\]", text)[1]), 0.3)
        self.assertIn("name unique_run_name", text)
        self.assertIn("rows 100", text)  # Each of two ranks has half of them.
        self.assertEqual(self.best(text.replace("best {", "best config {"))["lr"], 0.01)

    def test_a_trainer_of_two_processes(self) -> None:
        text = self.run_example("ddp/ddp_digits.py")
        self.assertGreater(float(re.search(r"accuracy ([\d.]+)", text)[1]), 0.88)

    def test_digits_in_pytorch(self) -> None:
        # The best at a rung is never stopped there, so that the order of the reports plays no part.
        text = self.run_example("digits_torch/digits_torch.py", "--samples", "4", "--epochs", "6")
        self.assertGreater(float(re.search(r"best accuracy: ([\d.]+)", text)[1]), 0.8)
        self.assertEqual(self.best(text)["epochs"], 6)

    def test_digits_torch_with_asha_promotion_saves_epochs(self) -> None:
        text = self.run_example("digits_torch/digits_torch.py", "--samples", "6", "--epochs", "6",
                                "--scheduler", "asha_promotion")  # fmt: skip
        self.assertGreater(float(re.search(r"best accuracy: ([\d.]+)", text)[1]), 0.8)
        trained, full = map(int, re.search(r"trained (\d+) of (\d+) epochs", text).groups())
        self.assertLess(trained, full * 3 // 4)

    def test_digits_torch_with_population_based_training(self) -> None:
        for scheduler in ("pbt", "pb2"):
            with self.subTest(scheduler=scheduler):
                text = self.run_example("digits_torch/digits_torch.py", "--samples", "4",
                                        "--epochs", "6", "--scheduler", scheduler)  # fmt: skip
                self.assertGreater(float(re.search(r"best accuracy: ([\d.]+)", text)[1]), 0.9)
                self.assertIn("of 24 epochs", text)


if __name__ == "__main__":
    unittest.main()
