"""Second looks at a run, for `check`: the prior against the release, and other modes."""
