"""Every limit of the fleet, each with its reason: what comes over the network is bounded by one."""

from __future__ import annotations

MIB = 1024 * 1024

# --- the server ---------------------------------------------------------------------------------------------

MAX_PAYLOAD = 1 * MIB
"""Bytes of any message that the server takes."""
MAX_CREDENTIAL_PAYLOAD = 320 * 1024
"""Bytes of a message of a machine or a user: the server closes a connection that sends more."""
MAX_SUBSCRIPTIONS = 64
"""Subscriptions of one credential; the fleet process needs about twenty."""
MAX_CONNECTIONS = 4096
"""Connections of clients to one server."""
MAX_ACCOUNT_CONNECTIONS = 2048
"""Connections of an account: one team can't take all places."""
ACCOUNT_DISK = 2048 * MIB
"""Bytes that the streams of an account may have on the server's disk."""
WRITE_SECONDS = 10
"""Seconds that a client of the server may take to read what it is sent before it loses its connection."""
ANSWER_TTL = 10.0
"""Seconds in which a service may answer what it was asked by the engine's own discovery."""
SERVER_START_SECONDS = 15.0
SERVER_STOP_SECONDS = 10.0
RESTART_PAUSE = 1.0
"""Seconds until a server that died is started again; twice as many each time it dies young,"""
MAX_RESTART_PAUSE = 30.0
"""up to so many."""

# --- streams of events and rows -----------------------------------------------------------------------------

FEED_BYTES = 512 * MIB
"""Bytes of the stream of events of all hosts; the oldest are dropped."""
FEED_MESSAGES_OF_HOST = 20_000
"""Events of one host that are kept, so that one that floods pushes out only its own."""
FEED_SECONDS = 7 * 86_400.0
"""Seconds that an event is kept."""
MAX_EVENT = 16 * 1024
"""Bytes of one event with its headers."""
DUPLICATE_SECONDS = 600.0
"""Seconds in which the server drops an event with an id that it has had."""
ROW_SECONDS = 60.0
"""Seconds that a host's row is good for."""
ROW_EVERY = 15.0
"""Seconds between two rows of a host of which nothing has changed."""
ROW_GATHER = 0.05
"""Seconds that changes of sessions are gathered before the next row."""
MAX_ROW = 256 * 1024
"""Bytes of a row; of more sessions than have room only the number is told."""
MAX_ROWS_BYTES = 256 * MIB
"""Bytes of the rows of all hosts of an account."""
MAX_HOSTS = 4096
"""Hosts that are remembered."""
AWAY_KEPT = 86_400.0
"""Seconds that a host that is away is still listed."""

# --- what is said about who speaks --------------------------------------------------------------------------

SIGNED_SECONDS = 60.0
"""Seconds that a signed request is good for, with clocks that differ."""
MAX_NONCES = 50_000
"""Signed requests that are remembered so that none counts twice; when there are more, all are refused."""
MAX_JWT = 8 * 1024
"""Characters of a credential's JWT."""
MAX_CREDS = 16 * 1024
"""Bytes of a file with credentials."""
