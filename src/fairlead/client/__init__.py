"""Reaching a daemon from another process."""
