"""The chain: a target, its state, and the moves that advance it.

Read in this order: `target` (what is sampled), `state` (what a chain is), `moves` (how it
advances), `default` (which moves are used), `chain` (one chain, a pure function of its state).
`noiseaware.running` runs several.
"""
