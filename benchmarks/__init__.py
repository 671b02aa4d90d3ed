"""Benchmarks of noiseaware, reported as ratios to peers measured in the same run.

Run from the root of the repository: ``python -m benchmarks [section ...] [--quick]``, or
``make bench`` for all sections, which ``python -m benchmarks --help`` lists. ``plot`` and the NUTS
rows need the extra ``bench``. Shared modules:

settings.py    the two settings of Ju, Awan, Gong and Rao (2022), as simulated releases
subjects.py    the same as noiseaware's models and releases
fused.py       peer: the paper's Algorithm 1 as hand-fused loops (a yardstick for its cost)
nuts.py        peer: NumPyro's NUTS on the parameters and the innovations
measure.py     smallest ESS, interleaved timings, peak memory, the cost of a new process
tables.py      plain-text tables and CSV
"""
