"""Benchmarks of noiseaware, as ratios against peers in one run.

Run from the root of the repository, for example ``python -m benchmarks.fused``.

settings.py   the two settings of Ju, Awan, Gong and Rao (2022), as simulated releases
fused.py      peer: the paper's Algorithm 1 as hand-fused loops (a yardstick for its cost)
nuts.py       peer: NumPyro's NUTS on the parameters and the innovations (extra ``bench``)
measure.py    smallest ESS, interleaved timings, peak memory, the cost of a new process
"""
