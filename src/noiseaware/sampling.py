"""`sample` and `resume`: run the chains, collect their draws and run the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware import models, sizes
from noiseaware.agreement.fit import check_fit
from noiseaware.basics.arguments import seed_number, whole_number
from noiseaware.contract import Model, Move, Size
from noiseaware.release import Release
from noiseaware.results import checks, posterior
from noiseaware.running.checkpoint import describe, opened, read_header
from noiseaware.running.run import run
from noiseaware.running.workers import terminable
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.progress import Progress, Rows, Silent
from noiseaware.scrutiny import conflict, scouts, surprise

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
    derived: Mapping[str, Any] | None = None,
    checkpoint: str | Path | None = None,
) -> DataTree:
    """Draw from the exact posterior p(theta | s_dp) of a model, given a private release.

    Parameters
    ----------
    model
        What generated the records; see `noiseaware.models`.
    release : Release
        The private numbers and the mechanism that made them.
    draws, warmup : int
        Draws kept from each chain, and tuning iterations before them.
    chains : int
        The number of independent chains.
    cores : int, optional
        Worker processes, at most one per chain; further cores become threads, which share the
        records of a chain if there are more than 32,768. None: one process for a small job,
        otherwise up to one per chain. Inside a `joblib.parallel_config` block, its backend
        provides the workers. The draws do not depend on this number.
    random_seed : int, optional
        Same seed, same draws.
    progressbar : bool or callable
        True shows a row for each chain and, at the end, the verdicts of `noiseaware.check`; False
        shows nothing. For another display, pass a function that makes a
        `noiseaware.sampler.progress.Progress` from the number of chains and the schedule; you then
        call the checks yourself.
    moves : sequence of moves, optional
        What an iteration does, in order. None chooses moves that suit the model;
        `noiseaware.moves.algorithm1()` is the paper's sampler.
    keep_records : int
        How many imputed databases to keep from each chain, evenly spaced over the draws. If the
        number of records is unknown, their lengths differ and they are padded with NaN;
        `noiseaware.imputed` returns them without the padding.
    size : optional
        The prior for the number of records, such as `noiseaware.sizes.Uniform(1, 1000)`, if the
        release does not give it (`n_records=None`). The posterior then includes `n_records`.
    derived : mapping, optional
        Further quantities for the posterior, computed from the parameters: a formula as text, such
        as ``{"sd": "sqrt(shape) / rate"}``, or a function of one theta.
    checkpoint : path, optional
        A directory where the run saves draws and chains, so that nothing is lost if it is killed.
        Repeat the call to continue with exactly the draws of an uninterrupted run, or with a larger
        `draws` to make more. See `resume`.

    Returns
    -------
    xarray.DataTree
        In ArviZ's schema: `posterior`, `sample_stats`, `observed_data`, `constant_data`, and
        `latent_records` if databases were kept. After Ctrl-C, the draws so far, with the attribute
        `complete` set to 0.
    """
    if derived is not None:
        model = models.derived(model, derived)
    wanted = {
        "warmup": whole_number("warmup", warmup, 0),
        "draws": whole_number("draws", draws, 1),
        "keep_records": whole_number("keep_records", keep_records, 0),
        "chains": whole_number("chains", chains, 1),
    }
    if keep_records > draws:
        raise ValueError(f"keep_records must be at most draws ({draws}); got {keep_records}")
    random_seed = seed_number(random_seed)
    cores = None if cores is None else whole_number("cores", cores, 1)
    show = progressbar if callable(progressbar) else Rows if progressbar else Silent
    with ExitStack() as stack:
        store, first = None, draws
        if checkpoint is not None:
            check_fit(model, release, size)  # before anything is written
            random_seed = _seed(random_seed, checkpoint)
            described = describe(model, release, moves, size, random_seed=random_seed, **wanted)
            store, first = stack.enter_context(opened(checkpoint, described))
        schedule = Schedule.make(warmup, draws, keep_records, first)
        made = run(
            model,
            release,
            schedule,
            show(chains, schedule),
            chains=chains,
            cores=cores,
            random_seed=random_seed,
            moves=moves,
            size=size,
            checkpoint=store,
        )
    with terminable():  # the draws are there: SIGTERM ends the looks at them, as Ctrl-C does
        result = posterior.collect(
            made,
            scouts=scouts.send(made),
            conflict=conflict.look(made),
            surprise=surprise.look(made),
        )
    if progressbar and not callable(progressbar):
        checks.check(result).show()
    return result


def resume(
    checkpoint: str | Path,
    *,
    model: Model | None = None,
    release: Release | None = None,
    moves: Sequence[Move] | None = None,
    size: Size | None = None,
    draws: int | None = None,
    cores: int | None = None,
    progressbar: bool | Callable[[int, Schedule], Progress] = True,
) -> DataTree:
    """Continue a run of `sample` that was stopped or killed, or extend it with more draws.

    Parameters
    ----------
    checkpoint : path
        The directory that was given to `sample`.
    model, release, moves, size : optional
        The arguments given to `sample`. You need only those that a file cannot hold: objects of
        your own classes, and moves other than the default. An argument that differs from the
        original is refused.
    draws : int, optional
        Total draws of each chain; None: as many as originally requested.
    cores, progressbar
        As in `sample`.

    Returns
    -------
    xarray.DataTree
        What `sample` would have returned without the interruption.
    """
    stored = stored_run(checkpoint, model, release, moves, size)
    if draws is not None:
        stored["draws"] = draws
    return sample(**stored, cores=cores, progressbar=progressbar)


def stored_run(
    checkpoint: str | Path,
    model: Model | None = None,
    release: Release | None = None,
    moves: Sequence[Move] | None = None,
    size: Size | None = None,
) -> dict[str, Any]:
    """Return the arguments of `sample`, as far as a checkpoint records them."""
    found = read_header(checkpoint)
    return {
        "model": _stored("model", found["model"], models.from_dict, model),
        "release": _stored("release", found["release"], Release.from_dict, release),
        "moves": _stored("moves", found["moves"], lambda none: none, moves),
        "size": _stored("size", found["size"], lambda x: x and sizes.from_dict(x), size),
        **{name: found[name] for name in ("draws", "warmup", "chains", "keep_records")},
        "random_seed": int(found["random_seed"]),
        "checkpoint": checkpoint,
    }


def _stored(name: str, described: Any, read: Callable[[Any], Any], given: Any) -> Any:
    if given is not None:
        return given
    if isinstance(described, str):
        raise ValueError(
            f"{name} must be given: {described} is more than a checkpoint can hold; pass {name}="
        )
    return read(described)


def _seed(random_seed: int | None, checkpoint: str | Path) -> int:
    """Return the given seed, or that of the run to continue, or a new one."""
    if random_seed is not None:
        return random_seed
    try:
        return int(read_header(checkpoint)["random_seed"])
    except FileNotFoundError:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
