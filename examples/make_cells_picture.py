"""Draw docs/pictures/cells.png: the estimates of examples/cells/counties.csv.

noiseaware fit cells/counties.csv --model cells/counties.toml --seed 1 --out posterior.nc
python examples/make_cells_picture.py posterior.nc
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

import noiseaware as na

if __name__ == "__main__":
    figure = Figure(figsize=(6.4, 8.0), layout="constrained")
    axes = figure.subplots(3, 1, height_ratios=[1.3, 0.8, 1.0])
    na.plot_estimates(na.load(sys.argv[1]), axes=axes)
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "cells.png", dpi=110)
