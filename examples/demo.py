"""From a release file to a posterior and a readable report, using the command; run by `make demo`.

The release is of a made-up survey: does exercise lower the resting pulse? See
`make_exercise_release.py` for its simulation, and `exercise_model.toml` for the model.
"""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import noiseaware as na

ROOT = Path(__file__).parents[1]
OUT = Path("demo-output")


def words(*options: str) -> list[str]:
    return [
        *("noiseaware", "fit", "examples/exercise_release.json"),
        *("--model", "examples/exercise_model.toml", "--seed", "1", *options),
        *("--out", str(OUT / "posterior.nc"), "--report", str(OUT / "report.html")),
    ]


def answer(posterior) -> str:
    """Return the answer in words, beside that of the naive analysis."""
    slope = posterior["posterior"]["coefficients"].sel(coefficient="x1").values.ravel()
    model = na.models.LinearRegression(n_features=1, coefficient_sd=1.0)
    release = na.Release.from_json(ROOT / "examples" / "exercise_release.json")
    naive = na.baselines.naive(model, release, random_seed=1)["coefficients"][:, 1]
    low, middle, high = 10 * np.quantile(slope, [0.05, 0.5, 0.95])
    naive_low, naive_high = 10 * np.quantile(naive, [0.05, 0.95])
    return "\n".join(
        [
            f"An hour more of exercise a week goes with {middle:+.1f} beats a minute,",
            f"between {low:+.1f} and {high:+.1f} with probability 90%.",
            f"The probability that exercise lowers the pulse is {np.mean(slope < 0):.1%}.",
            "",
            "Taking the noisy sums as exact would have given an interval from "
            f"{naive_low:+.1f} to {naive_high:+.1f}:",
            "it ignores the noise, and misses the true effect of -2.5.",
        ]
    )


def main() -> None:
    (ROOT / OUT).mkdir(exist_ok=True)
    if "--compile" in sys.argv:
        # A very short run first, to compile everything.
        short = words("--draws", "20", "--warmup", "20", "--quiet")
        subprocess.run([sys.executable, "-m", *short], cwd=ROOT, capture_output=True)
        shutil.rmtree(ROOT / OUT)
        return
    command = words()
    print(f"{shlex.join(command)}\n", flush=True)
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True)
    print()
    print(answer(na.load(ROOT / OUT / "posterior.nc")))


if __name__ == "__main__":
    main()
