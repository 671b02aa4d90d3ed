"""`sample`: run the chains, put their draws together, and say what the checks find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from noiseaware import checks, posterior
from noiseaware.arguments import whole_number
from noiseaware.contract import Model, Move, Size
from noiseaware.release import Release
from noiseaware.sampler import conflict, scouts
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.progress import Progress, Rows, Silent
from noiseaware.sampler.run import run

if TYPE_CHECKING:
    from xarray import DataTree


def sample(
    model: Model,
    release: Release,
    *,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | None = None,
    progressbar: bool | Callable[[int, Schedule], Progress] = True,
    moves: Sequence[Move] | None = None,
    keep_records: int = 0,
    size: Size | None = None,
) -> DataTree:
    """Draw from the exact posterior p(theta | s_dp) of a model, given a private release.

    Parameters
    ----------
    model
        What made the records; see `noiseaware.models`.
    release : Release
        The private numbers with the mechanism that made them.
    draws, warmup : int
        Iterations of each chain that are kept, and iterations before them in which the moves
        tune themselves.
    chains : int
        Independent chains.
    cores : int, optional
        Worker processes. None takes as many as help: one for a small job, otherwise up to one a
        chain. Inside a `joblib.parallel_config` block the workers are those of its backend. The
        draws are the same for any number.
    random_seed : int, optional
        Same seed, same draws.
    progressbar : bool or callable
        True shows a row for each chain and, at the end, what `noiseaware.check` says; False shows
        nothing. To show progress in another way, give what makes a
        `noiseaware.sampler.progress.Progress` from the number of chains and the schedule; the
        checks are then yours to call.
    moves : sequence of moves, optional
        What an iteration does, in order. None picks what suits the model;
        `noiseaware.moves.algorithm1()` is the paper's sampler.
    keep_records : int
        How many imputed databases to keep from each chain, evenly spaced over the draws. Not
        where the number of records is unknown.
    size : optional
        The prior for the number of records, such as `noiseaware.sizes.Uniform(1, 1000)`, of a
        release that does not say it (`n_records=None`). The posterior then has `n_records`.

    Returns
    -------
    xarray.DataTree
        In ArviZ's schema: `posterior`, `sample_stats`, `observed_data`, `constant_data`, and
        `latent_records` if databases were kept. On Ctrl-C, what was drawn so far, with the
        attribute `complete` set to 0.
    """
    schedule = Schedule.make(
        whole_number("warmup", warmup, 0),
        whole_number("draws", draws, 1),
        whole_number("keep_records", keep_records, 0),
    )
    if keep_records > draws:
        raise ValueError(f"keep_records must be at most draws ({draws}); got {keep_records}")
    if keep_records and release.n_records is None:
        raise ValueError(
            "keep_records must be 0 where the number of records is unknown: the imputed databases "
            f"are not of one length; got {keep_records}"
        )
    chains = whole_number("chains", chains, 1)
    show = progressbar if callable(progressbar) else Rows if progressbar else Silent
    made = run(
        model,
        release,
        schedule,
        show(chains, schedule),
        chains=chains,
        cores=None if cores is None else whole_number("cores", cores, 1),
        random_seed=None if random_seed is None else whole_number("random_seed", random_seed, 0),
        moves=moves,
        size=size,
    )
    result = posterior.collect(made, scouts.send(made), conflict.look(made))
    if progressbar and not callable(progressbar):
        checks.check(result).show()
    return result
