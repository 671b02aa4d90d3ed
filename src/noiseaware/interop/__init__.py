"""Releases that were made by other libraries, and models that were written for others.

One file a library. For releases, each has a function `release` that reads the noise, its scale and
what was done after the noise, and gives a `Release` that `noiseaware.sample` takes:

- `opendp`: a measurement of OpenDP, or the text that `opendp.prelude.serialize` made of it;
  `opendp.frame` for its Polars API;
- `diffprivlib`: a mechanism of IBM's diffprivlib; `diffprivlib.tools`, `diffprivlib.fitted`;
- `tumult`: the noise information of Tumult Analytics;
- `pipeline_dp`, `smartnoise`: results of PipelineDP and of SmartNoise SQL;
- `wikimedia`: Wikimedia's daily files of page views;
- `census`: noisy measurement files of the 2020 Census, and tables of the Detailed DHC-A;
- `tables`: any table of cells with the columns value, scale and law.

For models there are `numpyro`, whose function `model` takes a NumPyro model as it is, and, in
`numpyro` and `pymc`, `Noisy`: the distribution of a number that was published with noise, for
models of theirs.

None of these libraries is imported here: what is read is an object that you hold, or plain JSON.
What cannot be read is an error that says how to write the release by hand; nothing is guessed.
"""

from noiseaware.interop import (
    census,
    diffprivlib,
    numpyro,
    opendp,
    pipeline_dp,
    pymc,
    smartnoise,
    tables,
    tumult,
    wikimedia,
)

__all__ = [
    "census",
    "diffprivlib",
    "numpyro",
    "opendp",
    "pipeline_dp",
    "pymc",
    "smartnoise",
    "tables",
    "tumult",
    "wikimedia",
]
