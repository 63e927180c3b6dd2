"""Worktrees of sessions, what sessions changed, and undoing it. Nothing that a repository names is run."""
