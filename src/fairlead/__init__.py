"""Fairlead hosts coding-agent sessions and serves them through four wire protocols."""

__version__ = "0.1.0"
