"""The chain: a target, its state, the moves that advance it, and the runner.

Read in this order: `target` (what is sampled), `state` (what a chain is), `moves` (how it
advances), `chain` (one chain, a pure function of its state), `run` (several chains, seeds,
workers, Ctrl-C).
"""
