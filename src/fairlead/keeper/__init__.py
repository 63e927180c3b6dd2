"""The processes that outlive the daemon: one keeper for each PTY, and the nursery that they are forked from.

Standard library only, so that a keeper stays small and can't be broken by an upgrade of anything else.
"""
