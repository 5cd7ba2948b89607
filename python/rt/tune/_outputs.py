"""The files that the trials of an embedded cluster wrote, copied into their results directories."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any

from rt import _driver
from rt._errors import RtError

OUTPUTS_DIR = "outputs"
_KEPT_WITHIN_S = 60.0  # A node brings outputs to the store soon after the trial's end.


def save_outputs(trial_id: str, detail: dict[str, Any], results_dir: str) -> None:
    """Copies the files of the last attempt into `outputs`, replacing an earlier copy.

    `detail`: the trial as trial_get returned it. Raises RtError when the files are not in the store
    in time.
    """
    end = time.monotonic() + _KEPT_WITHIN_S
    while detail.get("outputs_pending"):
        if time.monotonic() >= end:
            raise RtError("the files that the trial wrote are not in the store", "UNAVAILABLE")
        time.sleep(0.02)
        detail = dict(_driver.get().call("trial_get", trial_id=trial_id))
    outputs = detail.get("outputs") or {}
    manifests = [each for each in (outputs.get("manifest"), *(outputs.get("parts") or ())) if each]
    if not manifests:
        return
    target = os.path.join(results_dir, OUTPUTS_DIR)
    shutil.rmtree(target, ignore_errors=True)
    for manifest in manifests:
        _driver.get().call("blob_pull_dir", manifest=manifest, target=target)
