"""Whether a model, a release and your own classes fit together, and if not, which is at fault.

`fit` checks before sampling, `arrays` checks what a user's methods return during it, and `blame`
adds the method's name to an error.
"""
