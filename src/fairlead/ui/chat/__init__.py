"""A conversation with an agent session in a terminal, and for scripts without one."""
