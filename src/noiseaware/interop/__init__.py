"""Releases made by other libraries, and models written for them.

Each of these modules has a function `release`, which reads the noise, its scale and the steps after
it and returns a `Release` for `noiseaware.sample`:

- `opendp`: an OpenDP measurement, or its text from `opendp.prelude.serialize`; `opendp.frame` for
  the Polars API;
- `diffprivlib`: a mechanism of IBM's diffprivlib; `diffprivlib.tools`, `diffprivlib.fitted`;
- `tumult`: the noise information of Tumult Analytics;
- `pipeline_dp`, `smartnoise`: results of PipelineDP and SmartNoise SQL;
- `wikimedia`: Wikimedia's daily files of page views;
- `census`: noisy measurement files of the 2020 Census, and tables of the Detailed DHC-A;
- `tables`: any table of cells with the columns value, scale and law.

`numpyro.model` takes an unmodified NumPyro model. `Noisy`, in `numpyro` and `pymc`, is the
distribution of a number published with noise, for use in their models.

Readers do not import these libraries: they read an object that you hold, or plain JSON. Nothing is
guessed: unreadable input raises an error that says how to write the release by hand.
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
