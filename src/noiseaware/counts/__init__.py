"""Finite models: the state of a chain is the number of records with each possible value.

`target` is what is sampled, `move` how it moves. The cost does not grow with the number of records.
"""
