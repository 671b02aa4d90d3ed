"""The old name of `noiseaware.baselines`, to be removed in 0.3."""

from noiseaware.baselines import *  # noqa: F403
from noiseaware.basics.deprecated import warn

warn("noiseaware.comparators", "noiseaware.baselines")
