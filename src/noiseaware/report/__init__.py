"""One self-contained HTML page from a posterior, for people who do not know MCMC.

`page.py` gathers what the page says, `words.py` puts numbers and promises into words, `parts.py`
computes where the uncertainty comes from, `pictures.py` draws, and `page.html` with `page.css` is
the page. Nothing in it is loaded from anywhere: the style and the pictures are inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["write_report"]


def write_report(
    posterior: DataTree,
    path: str | Path,
    *,
    title: str | None = None,
    question: str | None = None,
    command: str | None = None,
    var_names: Sequence[str] | str | None = None,
    model: Any = None,
    release: Any = None,
) -> Path:
    """Write a posterior as one HTML page that can be read without knowing MCMC.

    It says, in this order: the answer in one sentence a parameter; the posterior against the
    prior and against the analysis that takes the noisy numbers as exact; where the uncertainty
    comes from; what the release promises; the checks; the chains; the imputed databases; how it
    was made. See `docs/report.md`.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned. With imputed databases (`sample(..., keep_records=25)`)
        the report can say how much of the uncertainty is due to the privacy noise.
    path : str or Path
        Where to write the page.
    title, question : str, optional
        The heading, and the question that was asked of the data.
    command : str, optional
        The command that made the posterior, to be shown on the page.
    var_names : str or sequence of str, optional
        The parameters of interest, which are shown first; None takes those that the model names
        first. All others are in tables that unfold.
    model, release : optional
        If they are classes of your own, which the posterior cannot hold.

    Returns
    -------
    Path
        The file.
    """
    from noiseaware.report.page import make_page

    path = Path(path)
    path.write_text(
        make_page(
            posterior,
            title=title,
            question=question,
            command=command,
            var_names=var_names,
            model=model,
            release=release,
        ),
        encoding="utf-8",
    )
    return path
