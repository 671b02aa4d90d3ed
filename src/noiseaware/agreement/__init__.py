"""Whether a model, a release and a class of yours fit together, and whose mistake it is if not.

`fit` checks before a chain starts, `arrays` checks what a user's methods return while it runs, and
`blame` says in an error which method it came from.
"""
