"""A project as verifiers see it: a scratch copy, and what of it may be seen."""
