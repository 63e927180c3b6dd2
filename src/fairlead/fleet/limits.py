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
SEAL_ROOM = 8 * 1024
"""Bytes of headers of what is signed: the credential is in them."""
MAX_EVENT = 16 * 1024 + SEAL_ROOM
"""Bytes of one event with its headers."""
DUPLICATE_SECONDS = 600.0
"""Seconds in which the server drops an event with an id that it has had."""
ACCOUNT_EVERY = 10.0
"""Seconds after which the server tells again who was revoked, and hosts look."""
ROW_SECONDS = 60.0
"""Seconds that a host's row is good for."""
ROW_EVERY = 15.0
"""Seconds between two rows of a host of which nothing has changed."""
ROW_GATHER = 0.05
"""Seconds that changes of sessions are gathered before the next row."""
ROWS_A_SECOND = 25.0
"""Rows of a host that are read in a second: it sends at most 20;"""
ROWS_AT_ONCE = 50
"""and so many at once, after it was quiet."""
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
MAX_LINES_HELD = 64 * MIB
"""Bytes of lines of all streams from other hosts that are not whole yet: one may have 16 MiB."""
MAX_REFUSALS = 64 * 1024
"""Bytes of refusals that wait for who was refused."""
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

# --- the queue ----------------------------------------------------------------------------------------------

JOB_LEASE = 30.0
"""Seconds for which a job is who took it; then another one may. It is renewed while it runs."""
RENEWALS = 6
"""How often it is renewed in that time,"""
STOP_SHARE = 2 / 3
"""and after which part of it, without a renewal that the server has confirmed, who took it stops the turn."""
MAX_JOB = 64 * 1024
"""Bytes of a job with its signature."""
MAX_JOBS = 20_000
"""Jobs that wait or run."""
JOBS_BYTES = 192 * MIB
JOB_KEPT = 7 * 86_400.0
"""Seconds for which a job may wait."""
RUN_KEPT = 30 * 86_400.0
"""Seconds for which is kept what became of it."""
MAX_RUN = 128 * 1024
"""Bytes of one state of a job."""
PUT_BACK_EVERY = 60.0
"""Seconds after which is looked whether jobs of ours are gone from the queue."""
RUN_HISTORY = 8
"""States of a job of each who writes them, of which the last that is signed counts."""
RUNS_BYTES = 384 * MIB
MAX_JOB_REPORT = 32 * 1024
"""Characters of a report that are kept with a job; the host that made it has all of it."""
MAX_JOB_NOTE = 600
"""Characters of what is said of a job that could not be run."""
MAX_JOB_TITLE = 80
MAX_JOB_CHECKS = 16
MAX_JOB_TRIES = 10
MAX_JOB_SECONDS = 86_400.0
MAX_CAPACITY = 64
"""Jobs that one host runs at a time, whatever it says."""
MAX_LANES_OF_LABELS = 256
"""Labels of an account for which there are lanes."""
MAX_WAITING_WORKERS = 4096
"""Workers that wait at one lane."""
MAX_RUNNING = 10_000
"""Jobs of one lane that run."""
LANE_PAUSE = 1.0
JOB_ANSWER_SECONDS = 5.0
"""Seconds in which the server must answer about the queue."""
PUT_TRIES = 3
"""How often a job is sent; it counts once."""
PUT_PAUSE = 0.5
CAS_TRIES = 8
RUN_BATCH = 256
"""States that are read at once."""
MAX_LISTED = 20_000
TAKE_SECONDS = 20.0
"""Seconds for which a worker waits at a lane before it asks again."""
PASS_FIRST = 1.0
"""Seconds until a job that a host can't run is offered again; twice as many each time,"""
PASS_MOST = 60.0
"""up to so many."""
AWAY_PAUSE = 1.0
"""Seconds until a worker that can't reach the server tries again."""
STOP_SECONDS = 3.0
"""Seconds that a run has to end when it is told to, twice; then it is killed. All that is less than the part
of the lease that is left then."""
MAX_OUTPUT = 4 * MIB
"""Bytes of what a run prints that are read; a report has less."""
SHIFT_LOOK = 1.0
"""Seconds between two looks whether settings say that other jobs are to be taken."""
