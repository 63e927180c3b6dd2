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

# --- requests -----------------------------------------------------------------------------------------------

ASKS_A_SECOND = 100.0
"""Requests of one sender that are looked at in a second;"""
ASKS_AT_ONCE = 200
"""and so many at once, after it was quiet. More are dropped before anything of them is read."""
MAX_SENDERS = 4096
"""Senders whose requests are counted."""
MAX_ASKS = 256
"""Requests of all senders that are being answered;"""
MAX_ASKS_OF_SENDER = 32
"""and of one."""
ASK_SECONDS = 30.0
"""Seconds until a request without an answer is given up."""
CALL_SECONDS = 120.0
"""Seconds that an op may take here."""
MAX_ANSWER = 256 * 1024
"""Bytes of an answer; what is longer needs a stream."""

# --- streams ------------------------------------------------------------------------------------------------

WINDOW = 256 * 1024
"""Bytes that one end of a stream may send before the other has taken them."""
CHUNK = 32 * 1024
"""Bytes of one message of a stream."""
MAX_STREAMS = 512
"""Streams of this machine;"""
MAX_STREAMS_OF_HOST = 64
"""and those that one other machine has opened here."""
PING_SECONDS = 10.0
"""Seconds after which an end that has nothing to say says that it is there."""
SILENCE_SECONDS = 35.0
"""Seconds of silence after which the other end of a stream is taken for dead."""
OPEN_SECONDS = 25.0
"""Seconds until a stream is open, which may take the start of a daemon."""
MAX_REASON = 400
"""Characters of the reason with which a stream is closed."""
QUICK_LINE = 64 * 1024
"""Bytes of a line of rpc-edn that is read on the loop; a longer one is read in a thread."""

# --- this machine -------------------------------------------------------------------------------------------

MAX_LOCAL = 256
"""Connections to fleet.sock."""
MAX_LOCAL_LINE = 4096
"""Bytes of the line that says what is wanted."""
LOCAL_SECONDS = 10.0
"""Seconds in which that line must be there."""
RECONNECT_FIRST = 0.2
"""Seconds until the server is tried again; twice as many each time,"""
RECONNECT_MOST = 5.0
"""up to so many."""
REFUSED_PAUSE = 30.0
"""Seconds until a server that refuses the credential is tried again."""
TELL_EVERY = 0.2
"""Seconds between two lists of hosts for who follows them."""
MAX_OUTBOX = 20_000
"""Events that wait for the server while it is away;"""
MAX_OUTBOX_BYTES = 16 * MIB
"""and their bytes. The oldest are dropped, and readers are told."""
FEED_BATCH = 256
"""Events that are read at a time."""
FEED_LOOK_EVERY = 2.0
"""Seconds until it is looked for events although nobody has said that there are any."""
MAX_CALLERS = 32
"""Senders of requests for which a connection to the daemon is kept."""
