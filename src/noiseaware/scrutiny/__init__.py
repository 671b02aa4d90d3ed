"""Further looks at a run, for `check`: the prior against the release, and other modes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from noiseaware.running.run import Run

LEAST_DRAWS = 400
"""With fewer draws in total, their range is too narrow to compare with."""


def long_enough(run: Run) -> bool:
    """Whether a run was completed and has enough draws to examine."""
    return run.complete and len(run.draws) * len(run.draws[0]) >= LEAST_DRAWS


@contextmanager
def harmless(what: str) -> Iterator[None]:
    """Let Ctrl-C end the block; turn an error, perhaps in a user's class, into a warning.

    The draws exist already, and matter more than a look at them.
    """
    try:
        yield
    except KeyboardInterrupt:
        pass
    except Exception as error:
        words = f"{what} ended early, without harm to the draws: {error}"
        warnings.warn(words, RuntimeWarning, stacklevel=5)
