"""Benchmarks of noiseaware, reported as ratios to peers measured in the same run.

Run from the root of the repository: ``python -m benchmarks [section ...] [--quick]``, or
``make bench`` for all sections. `__main__.py` lists the sections; the main ones are:

foundation.py  Algorithm 1 against fused loops, large n, memory, import, a new process
peers.py       smallest ESS per second: default, algorithm1(), NUTS; cost of an iteration
plot.py        ESS per second against epsilon, from the results of peers (extra ``bench``)
own_model.py   a user's plain NumPy model against the built-in one
ablation.py    the contribution of each part of the transport move
mixing.py      the default call over many simulated releases: R-hat and ESS

Shared modules:

settings.py    the two settings of Ju, Awan, Gong and Rao (2022), as simulated releases
subjects.py    the same as noiseaware's models and releases
fused.py       peer: the paper's Algorithm 1 as hand-fused loops (a yardstick for its cost)
nuts.py        peer: NumPyro's NUTS on the parameters and the innovations (extra ``bench``)
measure.py     smallest ESS, interleaved timings, peak memory, the cost of a new process
tables.py      plain-text tables and CSV
"""
