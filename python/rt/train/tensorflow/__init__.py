"""The names of ray.train.tensorflow that rt has: the callback for Keras."""

import sys

from rt._paths import announce_missing

announce_missing(sys.modules[__name__])
