"""The report callbacks with Keras, PyTorch Lightning, Transformers, XGBoost and LightGBM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rt import _api, train, tune
from rt._checkpoint import Checkpoint

os.environ.setdefault("KERAS_BACKEND", "torch")
Reports = list[tuple[dict[str, Any], Any]]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Reports:
    """(row, copy of the checkpoint or None) of each report."""
    found: Reports = []

    def report(row: dict[str, Any], checkpoint: Any = None) -> None:
        copied = tmp_path / f"checkpoint{len(found)}"
        kept = None if checkpoint is None else Checkpoint(checkpoint.to_directory(str(copied)))
        found.append((dict(row), kept))

    monkeypatch.setattr(_api, "report", report)
    monkeypatch.setattr(train, "report", report)
    return found


def keras_model() -> Any:
    import keras

    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(loss="mse", metrics=["mae"])
    return model


def test_keras_reports_each_epoch_with_the_model(reports: Reports) -> None:
    from rt.train.tensorflow.keras import ReportCheckpointCallback
    from rt.tune.integration.keras import TuneReportCallback, TuneReportCheckpointCallback

    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    model = keras_model()
    callbacks = [
        TuneReportCheckpointCallback(metrics={"error": "mae"}),
        TuneReportCallback(on="train_end"),
        ReportCheckpointCallback(checkpoint_on="train_end", report_metrics_on=["epoch_end"]),
    ]
    model.fit(x, y, epochs=2, verbose=0, callbacks=callbacks)
    rows = [(sorted(row), kept is not None) for row, kept in reports]
    epoch = [(["error"], True), (["loss", "mae"], False)]
    assert rows == [*epoch, *epoch, (["loss", "mae"], False), (["loss", "mae"], True)]
    again = TuneReportCheckpointCallback.get_model(reports[2][1])
    assert np.allclose(again.predict(x, verbose=0), model.predict(x, verbose=0))
    with pytest.raises(ValueError, match="unknown event 'epoch'"):
        TuneReportCallback(on="epoch")


def lightning_parts() -> Any:
    import pytorch_lightning as pl

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.layer(batch[0]).mean() ** 2
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val_loss", self.layer(batch[0]).mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 3)), 2)
    quiet: Any = {
        "max_epochs": 2, "logger": False, "enable_checkpointing": False, "accelerator": "cpu",
        "enable_progress_bar": False, "enable_model_summary": False,
    }  # fmt: skip
    return pl, Net(), data, quiet


def test_lightning_reports_after_each_validation(reports: Reports) -> None:
    from rt.tune.integration.pytorch_lightning import (
        TuneReportCallback,
        TuneReportCheckpointCallback,
    )

    pl, net, data, quiet = lightning_parts()
    callbacks = [
        TuneReportCheckpointCallback({"v": "val_loss", "missing": "nothing"}, filename="file"),
        TuneReportCallback(["loss"], on="train_epoch_end"),
    ]
    pl.Trainer(**quiet, callbacks=callbacks).fit(net, data, data)
    rows = [(sorted(row), kept is not None) for row, kept in reports]
    assert rows == [(["v"], True), (["loss"], False)] * 2
    assert all(isinstance(each, float) for row, _ in reports for each in row.values())
    with reports[2][1].as_directory() as folder:
        state = torch.load(os.path.join(folder, "file"), weights_only=False)
    assert state["epoch"] == 1 and set(state["state_dict"]) == {"layer.weight", "layer.bias"}
    with pytest.raises(ValueError, match="unknown event 'epochs'"):
        TuneReportCallback(on="epochs")


def test_lightning_trains_on_ranks(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    from rt.train.lightning import (
        RayDDPStrategy,
        RayLightningEnvironment,
        RayTrainReportCallback,
        prepare_trainer,
    )

    pl, net, data, quiet = lightning_parts()
    with pytest.raises(RuntimeError, match="use RayDDPStrategy"):
        prepare_trainer(pl.Trainer(**quiet))
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0",
                        "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    trainer = pl.Trainer(
        **quiet, strategy=RayDDPStrategy(process_group_backend="gloo"), devices=1,
        plugins=[RayLightningEnvironment()], callbacks=[RayTrainReportCallback()],
    )  # fmt: skip
    assert prepare_trainer(trainer) is trainer
    trainer.fit(net, data)
    torch.distributed.destroy_process_group()
    assert [(row["epoch"], row["step"]) for row, _ in reports] == [(0, 2), (1, 4)]
    with reports[1][1].as_directory() as folder:
        assert os.listdir(folder) == ["checkpoint.ckpt"]


def test_transformers_reports_with_each_save(reports: Reports, tmp_path: Path) -> None:
    import transformers
    from rt.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer

    config = transformers.BertConfig(
        vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=8, max_position_embeddings=8,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    row = {"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1], "labels": 1}
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"), num_train_epochs=2, save_strategy="epoch", logging_strategy="epoch",
        report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(model, arguments, train_dataset=[row] * 8)
    trainer.add_callback(RayTrainReportCallback())
    prepare_trainer(trainer).train()
    assert [each["epoch"] for each, _ in reports] == [1.0, 2.0] and "loss" in reports[0][0]
    with reports[1][1].as_directory() as folder:
        assert (Path(folder) / "checkpoint" / "trainer_state.json").exists()


def test_boosted_trees_report_under_the_names_of_ray_train(reports: Reports) -> None:
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    from rt.train.lightgbm import RayTrainReportCallback as LightGBM
    from rt.train.xgboost import RayTrainReportCallback as XGBoost

    x, y = np.random.default_rng(1).random((40, 3)), np.arange(40) % 2
    data = xgboost.DMatrix(x, y)
    xgboost.train({"objective": "binary:logistic"}, data, 2, evals=[(data, "train")],
                  callbacks=[XGBoost()], verbose_eval=False)  # fmt: skip
    assert list(reports[-1][0]) == ["train-logloss"]
    assert XGBoost.get_model(reports[-1][1]).num_boosted_rounds() == 2
    data = lightgbm.Dataset(x, y)
    lightgbm.train({"objective": "binary", "verbose": -1, "min_data_in_leaf": 2}, data, 2,
                   valid_sets=[data], valid_names=["train"], callbacks=[LightGBM()])  # fmt: skip
    assert list(reports[-1][0]) == ["train-binary_logloss"]
    assert LightGBM.get_model(reports[-1][1]).current_iteration() == 2


def test_outside_a_trial_a_report_warns() -> None:
    with pytest.warns(UserWarning, match="does nothing outside a trial"):
        tune.report({"a": 1})
