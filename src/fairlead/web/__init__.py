"""The web console: a process of its own that shows the daemon's sessions to browsers."""
