"""Hosted sessions: agents of others, and the way to the keepers of their pipes."""
