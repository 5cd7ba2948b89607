"""PyTorch Lightning on several ranks: the names of ray.train.lightning.

trainer = Trainer(strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()],
                  callbacks=[RayTrainReportCallback()], devices="auto", accelerator="auto")
trainer = prepare_trainer(trainer)
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from rt import _api, train
from rt.tune.integration._saving import checkpoint_directory, numbers_of
from rt.tune.integration.pytorch_lightning import import_lightning

_pl: Any = import_lightning()
_environments: Any = importlib.import_module(f"{_pl.__name__}.plugins.environments")
_strategies: Any = _pl.strategies


class _OneProcessPerRank:
    """What all strategies share: the ranks are processes already, each with its device."""

    @property
    def root_device(self) -> Any:
        """The device of this rank."""
        from rt.train.torch import get_device

        return get_device()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        """The part of the data for this rank."""
        context = _api.get_context()
        return {"num_replicas": context.get_world_size(), "rank": context.get_world_rank()}


class RayDDPStrategy(_OneProcessPerRank, _strategies.DDPStrategy):  # type: ignore[misc]
    """DDPStrategy for a TorchTrainer of rt."""


class RayFSDPStrategy(_OneProcessPerRank, _strategies.FSDPStrategy):  # type: ignore[misc]
    """FSDPStrategy for a TorchTrainer of rt."""


class RayDeepSpeedStrategy(_OneProcessPerRank, _strategies.DeepSpeedStrategy):  # type: ignore[misc]
    """DeepSpeedStrategy for a TorchTrainer of rt; it needs the package deepspeed."""


class RayLightningEnvironment(_environments.LightningEnvironment):  # type: ignore[misc]
    """Tells Lightning the ranks, and that it starts no processes."""

    @property
    def creates_processes_externally(self) -> bool:
        """True: the ranks run."""
        return True

    def world_size(self) -> int:
        """The number of ranks."""
        return _api.get_context().get_world_size()

    def global_rank(self) -> int:
        """This rank."""
        return _api.get_context().get_world_rank()

    def local_rank(self) -> int:
        """This rank on its node."""
        return _api.get_context().get_local_rank()

    def node_rank(self) -> int:
        """The number of this node."""
        return _api.get_context().get_node_rank()

    def set_world_size(self, size: int) -> None:
        """Nothing: the head sets it."""

    def set_global_rank(self, rank: int) -> None:
        """Nothing: the head sets it."""

    def teardown(self) -> None:
        """Nothing: the process group is of the training function."""


class RayTrainReportCallback(_pl.callbacks.Callback):  # type: ignore[misc]
    """Reports the logged metrics and a checkpoint of the trainer after each epoch of training."""

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Every rank reports; Lightning's strategy says which of them write files."""
        row = numbers_of(dict(trainer.callback_metrics))
        row.update(epoch=trainer.current_epoch, step=trainer.global_step)
        with checkpoint_directory() as (path, checkpoint):
            file = os.path.join(path, self.CHECKPOINT_NAME)
            trainer.save_checkpoint(file, weights_only=False)
            train.report(row, checkpoint if os.path.exists(file) else None)


def prepare_trainer(trainer: Any) -> Any:
    """The trainer. Raises RuntimeError for a strategy or environment that starts processes."""
    own = (RayDDPStrategy, RayFSDPStrategy, RayDeepSpeedStrategy)
    if not isinstance(trainer.strategy, own):
        kind = type(trainer.strategy).__name__
        raise RuntimeError(
            f"the strategy is {kind}: use RayDDPStrategy(), RayFSDPStrategy() or "
            "RayDeepSpeedStrategy() of rt.train.lightning"
        )
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if environment is not None and not isinstance(environment, RayLightningEnvironment):
        raise RuntimeError(
            f"the environment is {type(environment).__name__}: pass "
            "plugins=[RayLightningEnvironment()] of rt.train.lightning"
        )
    return trainer


__all__ = [
    "RayDDPStrategy",
    "RayDeepSpeedStrategy",
    "RayFSDPStrategy",
    "RayLightningEnvironment",
    "RayTrainReportCallback",
    "prepare_trainer",
]
