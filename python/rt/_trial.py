"""`python -m rt._trial`: the process of one attempt at one trial (rt/_attempt.py).

With RT_WARM_SERVER the process is the fork server of such processes (rt/_warm.py).
"""

from __future__ import annotations

import os
import sys

from rt import _attempt

if __name__ == "__main__":
    if "RT_WARM_SERVER" in os.environ:
        from rt import _warm

        _warm.serve()
    sys.exit(_attempt.main())
elif __name__ == "__mp_main__" and "RT_TRAINABLE" in os.environ:
    # A process that the trial spawned (multiprocessing) also has the script's names.
    globals().update(_attempt.load_payload()["own"])
