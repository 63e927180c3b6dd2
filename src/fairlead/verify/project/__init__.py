"""A project as verifiers see it: its tree, its repository, a scratch copy, and what of it may be seen."""
