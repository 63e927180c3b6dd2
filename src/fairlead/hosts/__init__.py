"""Other hosts as the daemon knows them: a link to each, what was known last, and ops that are passed on."""
