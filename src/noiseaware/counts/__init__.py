"""Finite models: the state of a chain is how many records have each possible value.

`target` is what is sampled, `move` how it moves; the cost does not grow with the number of records.
"""
