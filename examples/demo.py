"""From a release file to a posterior and a readable report.

The release is a made-up survey: does exercise lower the resting pulse? See
`make_exercise_release.py` for how it was made. Run with `make demo`.
"""

from pathlib import Path

import numpy as np

import noiseaware as na

HERE = Path(__file__).parent
OUT = HERE.parent / "demo-output"


def naive_interval(release: na.Release) -> tuple[float, float]:
    """Return the 90% interval of the slope that takes the noisy sums as exact.

    This is what the package is there to replace: least squares on the released numbers.
    """
    sums = dict(zip(release.names, release.values, strict=True))
    n = release.n_records
    # The query divided x1 by 6 and y by 3 to bring them into [-1, 1].
    mean_x, mean_y = 6 * sums["x1"] / n, 3 * sums["y"] / n
    xx = 36 * sums["x1^2"] / n - mean_x**2
    xy = 18 * sums["x1*y"] / n - mean_x * mean_y
    yy = 9 * sums["y^2"] / n - mean_y**2
    slope = xy / xx
    error = np.sqrt((yy - slope * xy) / (n * xx))
    return slope - 1.645 * error, slope + 1.645 * error


def report(release: na.Release, posterior) -> str:
    """Return the answer in words."""
    slope = posterior["posterior"]["coefficients"].sel(coefficient="x1").values.ravel()
    low, middle, high = 10 * np.quantile(slope, [0.05, 0.5, 0.95])
    naive_low, naive_high = (10 * end for end in naive_interval(release))
    lines = [
        "Does exercise lower the resting pulse?",
        "",
        f"The release: {release.n_records} people, {release.mechanism.guarantee}.",
        "",
        f"An hour more of exercise a week goes with {middle:+.1f} beats a minute,",
        f"between {low:+.1f} and {high:+.1f} with probability 90%.",
        f"The probability that exercise lowers the pulse is {np.mean(slope < 0):.1%}.",
        "",
        "Taking the noisy sums as exact would have given an interval from "
        f"{naive_low:+.1f} to {naive_high:+.1f}:",
        "it knows nothing of the noise, and misses the -2.5 that made the data.",
        "",
        na.summary(posterior, ci_prob=0.9).to_string(),
        "",
        str(na.check(posterior)),
    ]
    return "\n".join(lines)


def main() -> None:
    release = na.Release.from_json(HERE / "exercise_release.json")
    model = na.models.LinearRegression(n_features=1, coefficient_sd=1.0)
    posterior = na.sample(model, release, random_seed=1)
    OUT.mkdir(exist_ok=True)
    na.save(posterior, OUT / "posterior.nc")
    text = report(release, posterior)
    (OUT / "report.txt").write_text(text + "\n", encoding="utf-8")
    print(text)
    print(f"\nWritten: {OUT.name}/posterior.nc and {OUT.name}/report.txt")


if __name__ == "__main__":
    main()
