"""How often intervals cover the truth, with the noise accounted for and with the noise ignored.

In a population with 30% smokers, 100 people are surveyed repeatedly, and the number of smokers is
released with Laplace noise for epsilon = 0.1. Each release is analysed twice: by noiseaware, and by
an analysis that treats the noisy number as exact.

    python examples/against_naive.py                  # prints how many intervals miss
    python examples/against_naive.py naive.png        # and draws them
"""

import sys

import numpy as np

import noiseaware as na

TRUTH, N_RECORDS, EPSILON = 0.3, 100, 0.1


def interval(draws) -> tuple[float, float]:
    low, high = np.quantile(np.asarray(draws), [0.05, 0.95])
    return float(low), float(high)


def intervals(replicates: int, draws: int = 1000) -> dict[str, np.ndarray]:
    """Return the intervals of both analyses, (replicates, 2) each."""
    rng = np.random.default_rng(20221128)
    model = na.models.Bernoulli()
    mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=EPSILON)
    found: dict[str, list] = {"noise taken as exact": [], "noiseaware": []}
    for seed in range(replicates):
        people = (rng.random(N_RECORDS) < TRUTH).astype(int)
        release = mechanism.privatize(people, rng)  # for simulation only
        forgot = na.baselines.naive(model, release, draws=draws, random_seed=seed)
        knows = na.sample(
            model, release, draws=draws, chains=1, cores=1, random_seed=seed, progressbar=False
        )
        found["noise taken as exact"].append(interval(forgot["probability"]))
        found["noiseaware"].append(interval(knows["posterior"]["probability"]))
    return {name: np.array(rows) for name, rows in found.items()}


def misses(rows: np.ndarray) -> np.ndarray:
    return (rows[:, 0] > TRUTH) | (rows[:, 1] < TRUTH)


def draw(found: dict[str, np.ndarray], path: str) -> None:
    """Draw the intervals; those that miss are thick and red."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, (name, rows) in zip(axes, found.items(), strict=True):
        missed = misses(rows)
        for k, (low, high) in enumerate(rows):
            color, width = ("#b3261e", 2.6) if missed[k] else ("#1f5f8b", 1.4)
            ax.plot([low, high], [k, k], color=color, linewidth=width, solid_capstyle="butt")
        ax.axvline(TRUTH, color="black", linewidth=1, linestyle="--")
        ax.set_title(f"{name}: {missed.sum()} of {len(rows)} miss")
        ax.set_xlabel("share of smokers, 90% interval")
        ax.set_yticks([])
        ax.set_xlim(0, 1)
        ax.spines[["top", "left", "right"]].set_visible(False)
    axes[0].set_ylabel("releases")
    figure.savefig(path, dpi=120)


def main(replicates: int = 40, draws: int = 1000, path: str | None = None) -> None:
    found = intervals(replicates, draws)
    for name, rows in found.items():
        width = (rows[:, 1] - rows[:, 0]).mean()
        print(f"{name:22} {misses(rows).sum():3} of {replicates} miss, mean width {width:.2f}")
    if path:
        draw(found, path)


if __name__ == "__main__":
    main(path=sys.argv[1] if len(sys.argv) > 1 else None)
