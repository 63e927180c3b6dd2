"""The processes that outlive the daemon: keepers, one for each PTY or hosted agent, and their nursery.

Standard library only, so that a keeper stays small and can't be broken by an upgrade of anything else.
"""
