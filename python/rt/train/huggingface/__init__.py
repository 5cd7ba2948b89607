"""The names of ray.train.huggingface: see transformers.py."""

import sys

from rt._paths import announce_missing

announce_missing(sys.modules[__name__])
