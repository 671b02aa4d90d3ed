"""Wikimedia's daily files of page views by country, project and page.

A file has a row for each page whose noisy count is above a threshold: tab-separated without a
header (country, its code, project, page id, title, Wikidata item, count; without the item before
9 February 2017), or with a header and commas. A missing page had a noisy count of at most the
threshold: a withheld cell, NaN. The eligible pages are public: those with more than 150 views in
the world on that day.

The noise depends on the day (README files beside the data):

| days                    | noise                                        | published above |
|-------------------------|----------------------------------------------|-----------------|
| 2015-07-01 - 2017-02-08 | discrete Laplace, scale 300                  | 3500            |
| 2017-02-09 - 2023-02-05 | discrete Laplace, scale 30                   | 450             |
| from 2023-02-06         | discrete Gaussian, rho = 0.015: sigma = 18.3 | 90              |

In the last period a person contributes up to ten views of different pages, so the l2 sensitivity is
sqrt(10), and rho = 10 / (2 sigma^2) gives sigma. (The README also says "noise scale: 10", which as
sigma would mean rho = 0.05; if you know that to be right, give `scale=10`.) Seven days of 2023 were
regenerated with the noise of the previous period. From 15 February 2024 countries have tiers: those
of medium and higher risk are published above 550 and 1000, with more noise, whose sigma you must
give. United States rows until 19 September 2023 were made in two ways, and are refused.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noiseaware import mechanisms, queries
from noiseaware.interop.reading import cannot_read
from noiseaware.interop.tables import text_of
from noiseaware.release import Release

__all__ = ["Noise", "noise_of", "release"]


COLUMNS = ("country", "country_code", "project", "page_id", "page_title", "item_id", "count")
"""The columns of a file without a header; `item_id` is absent before 9 February 2017."""


class Noise(NamedTuple):
    """The noise of a period's files; a noisy count above the threshold is published."""

    discrete_laplace: bool
    scale: float
    threshold: float


EARLY = Noise(True, 300.0, 3500.0)
HISTORICAL = Noise(True, 30.0, 450.0)
CURRENT = Noise(False, math.sqrt(10.0 / (2.0 * 0.015)), 90.0)
THRESHOLDS = {"lower": 90.0, "medium": 550.0, "higher": 1000.0}
REPAIRED = {date(2023, 6, 19), date(2023, 10, 25)} | {
    date(2023, 11, day) for day in (13, 17, 19, 23, 27)
}


def noise_of(
    day: date | str, country: str = "", tier: str | None = None, scale: float | None = None
) -> Noise:
    """Return the noise of a day's file.

    `tier` is the country's, needed from 15 February 2024; `scale` is sigma, needed above the lower
    tier.
    """
    when = day if isinstance(day, date) else date(*map(int, day.split("-")))
    if when < date(2015, 7, 1):
        raise ValueError(f"day must be 2015-7-1 or later; got {day}")
    if when < date(2017, 2, 9):
        return EARLY
    if when < date(2023, 2, 6) or when in REPAIRED:
        return HISTORICAL
    if country.upper() in ("US", "UNITED STATES") and when <= date(2023, 9, 19):
        raise cannot_read(
            "rows of the United States from 6 February to 19 September 2023 were made in two ways"
        )
    if tier is None and when >= date(2024, 2, 15):
        raise ValueError(
            f"tier is needed from 2024-2-15 on: {', '.join(THRESHOLDS)}, of the country on "
            "Wikimedia's protection list"
        )
    tier = tier or "lower"
    if tier not in THRESHOLDS:
        raise ValueError(f"tier must be one of {', '.join(THRESHOLDS)}; got {tier!r}")
    if tier != "lower" and scale is None:
        raise ValueError(f"scale is needed for the tier {tier}: the sigma of its noise")
    return Noise(False, float(scale or CURRENT.scale), THRESHOLDS[tier])


def release(
    path: str | Path,
    country: str,
    pages: Sequence[str],
    *,
    project: str = "en.wikipedia",
    day: date | str | None = None,
    tier: str | None = None,
    scale: float | None = None,
) -> Release:
    """Read the views of some pages from one country: every page is a record.

    Parameters
    ----------
    path
        A day's file, as downloaded; it may be compressed (`.gz`).
    country
        Its name or code, as in the file.
    pages
        The titles of the pages, all of them eligible.
    project, day
        The wiki, and the day, if the file name does not contain it.
    tier, scale
        As in `noise_of`.
    """
    found = re.search(r"\d{4}-\d{1,2}-\d{1,2}", Path(path).name)
    if day is None and found is None:
        raise ValueError(f"day is needed: the name of the file does not say it, {Path(path).name}")
    noise = noise_of(day or found.group(), country, tier, scale)  # type: ignore[union-attr]
    rows = [
        row
        for row in _rows(text_of(path))
        if country in (row["country"], row.get("country_code")) and row["project"] == project
    ]
    if not rows:
        raise ValueError(f"country and project must be in the file; got {country}, {project}")
    counts = {_title(row["page_title"]): float(row["count"]) for row in rows}
    values = [counts.get(_title(page), np.nan) for page in pages]
    kind: Any = (
        mechanisms.LocalGeometric if noise.discrete_laplace else mechanisms.LocalDiscreteGaussian
    )
    made = kind(queries.Value(), scale=noise.scale, threshold=noise.threshold)
    return Release(values, made, len(values))


def _rows(text: str) -> list[dict[str, str]]:
    lines = text.splitlines()
    if not lines:
        raise ValueError("the file is empty")
    if "\t" in lines[0]:  # titles may hold quotes, which mean nothing
        split = [line.split("\t") for line in lines if line]
    else:
        split = [row for row in csv.reader(lines) if row]
    if "page_title" in split[0]:
        names, *split = split
        names = ["count" if name in ("gbc", "private_count") else name for name in names]
    else:
        names = [name for name in COLUMNS if name != "item_id" or len(split[0]) == len(COLUMNS)]
    if len(names) != len(split[0]) or "count" not in names:
        raise ValueError(f"the file must have the columns {', '.join(COLUMNS)}; got {split[0]}")
    return [dict(zip(names, row, strict=True)) for row in split]


def _title(text: str) -> str:
    return text.strip().replace("_", " ")
