"""`noiseaware fit`: from a release file and a model file to a posterior."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from noiseaware.basics.numerals import INTERVAL
from noiseaware.cli import show
from noiseaware.cli.errors import CHECKS_FAILED, INTERRUPTED, fail, reading
from noiseaware.cli.files import NETCDF, PAGE, check_ending, check_output, stopping, write_or_say

DRAWS, WARMUP, CHAINS = 1000, 1000, 4

KEEP = 25
MOST_KEPT = 1_000_000
"""Databases kept per chain by default, and the limit on their total number of records."""


def fit(
    release: Annotated[
        Path,
        typer.Argument(
            help="The release file (JSON): the noisy numbers and how the noise was made. Or a "
            "table of published cells (CSV, Parquet)."
        ),
    ],
    *,
    model: Annotated[
        Path,
        typer.Option(
            "--model",
            "-m",
            help="The model file (TOML): the model, its priors and, for cells, their columns.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write the posterior (netCDF).")
    ],
    report: Annotated[
        Path | None, typer.Option("--report", "-r", help="Write the report (HTML) as well.")
    ] = None,
    estimates: Annotated[
        Path | None,
        typer.Option(
            "--estimates", "-e", help="Write the table of cells with its estimates (CSV, Parquet)."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws to keep from each chain.")] = DRAWS,
    warmup: Annotated[
        int, typer.Option(help="Warm-up iterations of each chain, used for tuning.")
    ] = WARMUP,
    chains: Annotated[int, typer.Option(help="Independent chains; at least two.")] = CHAINS,
    cores: Annotated[
        int | None, typer.Option(help="Worker processes; by default, as many as are useful.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed; the same seed gives the same draws.")
    ] = None,
    keep_records: Annotated[
        int | None,
        typer.Option(
            help="Imputed databases to keep from each chain, for `report` and `impute`; by "
            f"default {KEEP}, or fewer if they are large."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A directory in which to save the draws as they are made, so that `noiseaware "
            "resume` can continue after any interruption."
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Probability of the interval in the table.")
    ] = INTERVAL,
    quiet: show.Quiet = False,
    as_json: show.JsonInstead = False,
) -> None:
    """Draw from the exact posterior of a model, given a private release.

    The release file says what was published and how the noise was made; the model file gives the
    model of the confidential records and its priors. Progress goes to stderr, the table and the
    checks to stdout.

    Ctrl-C or SIGTERM stops early and saves the draws made so far.

    A complete release file: `{"format": "noiseaware-release", "version": 1, "n_records": 100,
    "mechanism": {"type": "Laplace", "scale": 2.0, "query": {"type": "Count", "value": 1}},
    "values": [37.2]}`. A model file for it: `type = "Bernoulli"`.

    **Examples**

    - `noiseaware fit release.json --model model.toml --out posterior.nc --report report.html`

    - `noiseaware fit release.json -m model.toml -o posterior.nc --seed 1 --draws 4000`

    - `noiseaware fit release.json -m model.toml -o posterior.nc --checkpoint run` saves the draws
      in `run` as they are made; after a crash, continue with `noiseaware resume run`

    - `noiseaware fit counties.csv -m counties.toml -o posterior.nc --estimates better.csv` fits a
      table of published cells, whose columns the model file names (docs/command.md)

    - `noiseaware models LinearRegression` shows what to write in a model file

    - `noiseaware mechanisms Laplace` and `noiseaware queries Sum` do so for a release file

    **Exit codes**: 0 the checks passed; 1 a check failed (the posterior is still written); 2 the
    command was not understood; 3 a file is invalid or cannot be written; 130 Ctrl-C.
    """
    import noiseaware as na
    from noiseaware.basics.files import CheckpointError
    from noiseaware.release import ImpossibleRelease
    from noiseaware.sampler.progress import Rows

    with reading():
        sizes = {"draws": draws, "warmup": warmup, "chains": chains, "cores": cores, "seed": seed}
        _check_options(sizes, keep_records, interval)
        stated, described, notes = _read(release, model, estimates)
        _check_outputs(out, report, estimates, release, model)
    for note in () if quiet else notes:
        typer.echo(f"Note: {note}.", err=True)
    files = {"model": model, "out": out, "report": report, "estimates": estimates}
    options = {**files, "warmup": warmup, "chains": chains, "keep-records": keep_records}
    command = _command(release, options)
    titles = (described.title, described.question, described.parameters)
    says = (*titles, described.units, described.scales)
    wanted = Wanted(str(out), None if report is None else str(report), interval, command, *says)
    if estimates is not None:
        wanted = replace(wanted, cells=str(release.absolute()), estimates=str(estimates))
    with reading(CheckpointError, ImpossibleRelease):
        wanted.keep(checkpoint, begins=True)
        posterior = na.sample(
            described.model,
            stated,
            draws=draws,
            warmup=warmup,
            chains=chains,
            cores=cores,
            random_seed=seed,
            keep_records=_kept(keep_records, stated.n_records, draws, chains),
            progressbar=False if quiet else Rows,
            size=described.size,
            checkpoint=checkpoint,
        )
        wanted.keep(checkpoint)
    finish(posterior, wanted, checkpoint, as_json)


@dataclass(frozen=True)
class Wanted:
    """What to do with the draws; stored in the checkpoint."""

    out: str
    report: str | None
    interval: float
    command: Sequence[str]
    title: str | None = None
    question: str | None = None
    parameters: tuple[str, ...] | None = None
    units: dict[str, str] | None = None
    scales: dict[str, float] | None = None
    cells: str | None = None
    estimates: str | None = None

    def keep(self, checkpoint: Path | None, *, begins: bool = False) -> None:
        """Write it into a checkpoint; when a run begins, only into an empty one."""
        from noiseaware.basics.files import write_json
        from noiseaware.running.checkpoint import BESIDE

        if checkpoint is None or (begins and checkpoint.exists() and any(checkpoint.iterdir())):
            return
        checkpoint.mkdir(parents=True, exist_ok=True)
        content = asdict(self)
        for name in ("out", "report", "estimates"):
            content[name] = content[name] and str(Path(content[name]).absolute())
        write_json(checkpoint / BESIDE, content)

    @staticmethod
    def read(checkpoint: Path) -> Wanted | None:
        """Read it from a checkpoint; None if the command did not create that checkpoint."""
        from noiseaware.results.units import check_units
        from noiseaware.running.checkpoint import BESIDE

        path = checkpoint / BESIDE
        if not path.is_file():
            return None
        try:
            found = Wanted(**json.loads(path.read_text(encoding="utf-8")))
            units, scales = found.units or {}, found.scales or {}
            check_units(units, scales, {**units, **scales})
            others = (found.report, found.title, found.question, found.cells, found.estimates)
            texts = [found.out, *found.command, *(found.parameters or ())]
            texts += [text for text in others if text is not None]
            right = all(isinstance(text, str) for text in texts) and 0 < found.interval < 1
        except (ValueError, TypeError, RecursionError):
            right = False
        if not right:
            raise ValueError(f"{path} is damaged, or not of a checkpoint")
        return found


def finish(posterior: Any, wanted: Wanted, checkpoint: Path | None, as_json: bool) -> None:
    """Save the posterior, print its summary, and write the report."""
    import noiseaware as na
    from noiseaware.documents.cells_file import read_frame, write_cells
    from noiseaware.documents.stored import Wishes, remember

    drawn = ["--draws", str(posterior.attrs["draws"])] if posterior.attrs["draws"] != DRAWS else []
    command = [*wanted.command, *drawn, "--seed", posterior.attrs["random_seed"]]
    made = shlex.join(command) if wanted.command else None
    titles = (wanted.title, wanted.question, wanted.parameters, made)
    remember(posterior, Wishes(*titles, wanted.units, wanted.scales))
    out, report = Path(wanted.out), None if wanted.report is None else Path(wanted.report)
    kept = "" if checkpoint is None else f"the draws are in {checkpoint}"
    with stopping(f"stopped; the posterior is in {out}"):
        write_or_say(out, lambda path: na.save(posterior, path), kept)
    if wanted.cells is not None and wanted.estimates is not None:
        with reading():
            table = na.estimates(posterior, read_frame(Path(wanted.cells)))
        write_or_say(Path(wanted.estimates), lambda path: write_cells(table, path), kept)
        if not as_json:
            print(f"The estimates: {wanted.estimates}")
    resumes = "" if checkpoint is None else f"; noiseaware resume {checkpoint} goes on"
    _show(posterior, out, report, wanted.interval, as_json, resumes)


LEAST = {"draws": 1, "warmup": 0, "chains": 2, "cores": 1, "seed": 0, "keep-records": 0}
"""The smallest value that each option accepts."""


def _check_options(sizes: dict[str, Any], keep_records: int | None, interval: float) -> None:
    from noiseaware.basics.arguments import whole_number

    for name, value in {**sizes, "keep-records": keep_records}.items():
        if value is not None:
            whole_number(f"--{name}", value, LEAST[name])
    draws = sizes["draws"]
    if keep_records is not None and keep_records > draws:
        raise ValueError(f"--keep-records must be at most --draws ({draws}); got {keep_records}")
    if not 0 < interval < 1:
        raise ValueError(f"--interval must be a probability between 0 and 1; got {interval}")


def _check_outputs(
    out: Path, report: Path | None, estimates: Path | None, release: Path, model: Path
) -> None:
    """Raise ValueError if a file cannot be written or would overwrite another."""
    seen: dict[Path, str] = {}
    outputs = (("--out", out, NETCDF), ("--report", report, PAGE), ("--estimates", estimates, ()))
    for option, path, endings in outputs:
        if path is None:
            continue
        if path.resolve() in seen:
            other = seen[path.resolve()]
            raise ValueError(f"{option} and {other} must be two files; got {path} for both")
        seen[path.resolve()] = option
        check_output(option, path, release, model)
        check_ending(option, path, endings)


def _read(release: Path, model: Path, estimates: Path | None) -> tuple[Any, Any, list[str]]:
    """Return the release, the model file and notes; ValueError also if they do not match."""
    import noiseaware as na
    from noiseaware.agreement.fit import check_fit
    from noiseaware.documents import cells_file
    from noiseaware.documents.model_file import read_model_file, read_toml

    is_table = cells_file.is_cells_file
    notes: list[str] = []
    if estimates is not None and not (is_table(release) and is_table(estimates)):
        names = " or ".join(cells_file.SUFFIXES)
        raise ValueError(f"--estimates needs a table of cells, and ends with {names}")
    if is_table(release):
        stated, described, _, notes = cells_file.read_cells(release, model)
    else:
        if release.suffix.lower() in (".txt", *cells_file.OTHER_TABLES):
            cells_file.check_kinds(release, read_toml(model, dict))
        stated = na.Release.from_json(release)
        cells_file.check_kinds(release, read_toml(model, dict))
        described = read_model_file(model)
    check_fit(described.model, stated, described.size)
    return stated, described, notes


def _kept(wanted: int | None, n_records: int | None, draws: int, chains: int) -> int:
    if wanted is not None or n_records is None:
        return wanted or 0
    return min(KEEP, draws, MOST_KEPT // (n_records * chains))


def _command(release: Path, options: dict[str, Any]) -> list[str]:
    """Return the command that reproduces the draws, without its draws, seed and workers."""
    words, usual = ["noiseaware", "fit", str(release)], {"warmup": WARMUP, "chains": CHAINS}
    for name, value in options.items():
        if value != usual.get(name):
            words += [f"--{name}", str(value)]
    return words


def _show(
    posterior: Any, out: Path, report: Path | None, interval: float, as_json: bool, resumes: str
) -> None:
    """Print the summary and the checks, write the report, and exit with the checks' code."""
    import noiseaware as na

    checks = na.check(posterior)
    rows = show.summary_rows(posterior, interval)
    complete = bool(posterior.attrs["complete"])
    report = report if complete else None  # it can be made from what was saved
    if not as_json:
        _print(posterior, rows, checks, interval)
        print(f"\nWritten: {out}", flush=True)
    if report is not None:
        write_or_say(report, lambda path: na.write_report(posterior, path))
        if not as_json:
            print(f"The report: {report} (open it in a browser)")
    if as_json:
        written = {"complete": complete, "out": str(out), "report": report and str(report)}
        made = {"command": posterior.attrs.get("command"), "interval": interval, "summary": rows}
        show.print_json({**show.checks_as_json(checks), **written, **made})
    if not complete:
        drawn, wanted = posterior["posterior"].sizes["draw"], posterior.attrs["draws"]
        words = f"stopped after {drawn} of {wanted} draws; they are saved in {out}{resumes}"
        fail(words, INTERRUPTED)
    if not checks:
        fail(show.failed_sentence(checks), CHECKS_FAILED)


def _print(posterior: Any, rows: Any, checks: Any, interval: float) -> None:
    from noiseaware.documents.stored import kind_of_records, number_of_records, wishes_of
    from noiseaware.results.units import Units

    to = show.console()
    said = wishes_of(posterior)
    if said.question:
        to.print(f"\n[bold]{show.escaped(said.question)}[/]")
    promise = posterior.attrs["guarantee"] or "a mechanism that states no guarantee"
    kind, words = kind_of_records(posterior), f", {show.escaped(promise)}"
    if kind == "cells" and promise.startswith("no promise"):
        words = "; the privacy promise is not part of the table"
    to.print(f"\nThe release: {number_of_records(posterior)} {kind}{words}.\n")
    to.print(show.summary_table(rows, interval, Units.of(posterior)))
    to.print()
    show.print_checks(checks, to)
