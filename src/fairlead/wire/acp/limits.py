"""How much a peer may make us keep; `jsonrpc` has the limits of its envelopes.

Beyond a limit a peer gets an error or loses a message, but never the connection.
"""

from __future__ import annotations

MAX_LINE = 16 * 1024 * 1024
"""How many bytes a line may have: room for an image of 10 MB. A longer line is dropped as it comes."""
MAX_OPEN = 256
"""How many requests of each side may be unanswered at a time."""
MAX_SESSIONS = 256
"""How many sessions a connection may have."""
MAX_OPTIONS = 100
"""How many answers a permission may offer."""
MAX_ENTRIES = 10_000
"""How many entries a list in an update may have: of a plan, of commands, of a tool call's content."""
MAX_COMPLAINTS = 100
"""How many lines without a readable id get an error; a program that logs to its stdout never reads them."""
MAX_MENDED = 100_000
"""How many commas a message may have of which only parts can be read: looking for them takes time."""
