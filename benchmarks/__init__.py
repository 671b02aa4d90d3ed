"""Benchmarks of noiseaware, as ratios against peers in one run.

Run from the root of the repository: ``python -m benchmarks [section ...] [--quick]``, or
``make bench`` for all sections.

The sections, one file each:

foundation.py  Algorithm 1 against fused loops, large n, memory, import, a new process
peers.py       smallest ESS per second: default, algorithm1(), NUTS; cost of an iteration
plot.py        ESS per second against epsilon, from what peers wrote (extra ``bench``)
own_model.py   a plain NumPy model of one's own against the built-in one
ablation.py    what each part of the transport move is worth
mixing.py      the default call over many simulated releases: R-hat and ESS

What they stand on:

settings.py    the two settings of Ju, Awan, Gong and Rao (2022), as simulated releases
subjects.py    the same as noiseaware's models and releases
fused.py       peer: the paper's Algorithm 1 as hand-fused loops (a yardstick for its cost)
nuts.py        peer: NumPyro's NUTS on the parameters and the innovations (extra ``bench``)
measure.py     smallest ESS, interleaved timings, peak memory, the cost of a new process
tables.py      plain tables and their CSV
"""
