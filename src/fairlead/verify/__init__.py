"""Verification: judging what a turn did, by commands and by models that may only read."""
