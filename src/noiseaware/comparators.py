"""The old name of `noiseaware.baselines`; it goes with 0.3."""

from noiseaware.baselines import *  # noqa: F403
from noiseaware.basics.deprecated import warn

warn("noiseaware.comparators", "noiseaware.baselines")
