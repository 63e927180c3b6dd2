"""Every limit of the web console, each with its reason: what comes from a browser is bounded by one."""

from __future__ import annotations

MAX_CONNECTIONS = 256
"""Connections of browsers at a time. A page has one for events, one for each terminal, and a few more."""
MAX_CONNECTIONS_OF_STRANGERS = 128
"""Connections from other machines over which nobody who was let in has asked anything. The others are kept
for this machine and for those who were let in;"""
MAX_CONNECTIONS_OF_ADDRESS = 32
"""and as many of those from one address."""
ACCEPTED_AT_ONCE = 32
"""Connections that are accepted before something else has its turn."""
FULL_SECONDS = 1.0
"""Seconds until connections are accepted again after there were no descriptors left."""
MAX_LINGERING = 16
"""Connections that are refused and still told why;"""
LINGER_SECONDS = 1.0
"""for so long."""
LOG_SECONDS = 60.0
"""Seconds between two lines of the log about refused connections."""
MAX_CONNECTIONS_UNCHECKED = 64
"""Connections of which it is not known yet whose they are; finding out looks at processes."""
MAX_HEADER = 16 * 1024
"""Bytes of a request's line and headers."""
MAX_BODY = 8 * 1024 * 1024
"""Bytes of a request's body: a prompt with a long text in it."""
MAX_WRITER_BODY = 512 * 1024
"""Bytes of a body of who may write in one session: a prompt, or what is pasted."""
MAX_WATCHER_BODY = 16 * 1024
"""Bytes of a body of who may only look at one session: a few parameters."""
MAX_BODIES = 64 * 1024 * 1024
"""Bytes of the bodies of all ops at a time, from their first byte until the answer;"""
MAX_SHARES_BODIES = 8 * 1024 * 1024
"""and of those of shares, so that there is always room for the others."""
MAX_VALUES = 20_000
"""Values in a body: each takes many times the memory and time of its bytes."""
SMALL_BODY = 64 * 1024
"""Bytes of a body that is read at once; a longer one is read in a thread."""
MAX_TICKET_BODY = 4096
"""Bytes of what comes before anybody is let in."""
HEADER_SECONDS = 10.0
"""Seconds in which a request's headers must be there."""
BODY_SECONDS = 20.0
"""Seconds in which its body must be there."""
IDLE_SECONDS = 60
"""Seconds that a connection without a request is kept,"""
STRANGER_IDLE_SECONDS = 5
"""and one over which nobody who was let in has asked anything."""
STALL_SECONDS = 60.0
"""Seconds in which a browser must read what it was sent."""
CHUNK = 64 * 1024
"""Bytes of a page that are sent at a time, so that those who ask and never read cost no more memory."""
PEER_SECONDS = 5.0
"""Seconds in which it must be found out who connects."""
TLS_SECONDS = 10.0
"""Seconds for the handshake of TLS. The connection has its place already."""
TLS_BUFFER = 16 * 1024
"""Bytes that are read of a connection at a time under TLS: a record."""

OP_SECONDS = 120.0
"""Seconds that an op may take: waits for a turn or a text are asked for again."""
MAX_OPS = 32
"""Ops of one visitor at a time."""
MAX_ALL_OPS = 128
"""Ops of all visitors at a time."""
MAX_SHARE_OPS = 8
"""Ops of one guest at a time,"""
MAX_SHARES_OPS = 32
"""those of all guests, and"""
MAX_TOKENS_OPS = 64
"""those of all programs with tokens: there is always room for the owner's pages."""

MAX_PAGES = 64
"""Pages of one visitor that are live;"""
MAX_SHARE_PAGES = 8
"""and those of a guest."""
MAX_STREAMS = 128
"""Event streams of one visitor: one for each page that is open, and one for each agent that a page shows;"""
MAX_SHARE_STREAMS = 16
"""and those of a guest."""
MAX_EVENTS_KEPT = 2000
"""Events that a page can ask for again after its connection was lost."""
MAX_EVENTS_WAITING = 1000
"""Events that may wait for a page; one that is further behind is told to fetch everything again."""
MAX_BYTES_WAITING = 4 * 1024 * 1024
"""Bytes of such events: a question may have a long text."""
HEARTBEAT_SECONDS = 15.0
"""Seconds after which something is sent on an event stream: proxies keep it, and a dead end is noticed."""

MAX_TERMINALS = 48
"""Terminals of one visitor."""
MAX_SHARE_TERMINALS = 8
"""Terminals of one guest."""
MAX_KEYS = 64 * 1024
"""Bytes of a message on a terminal's connection."""
WINDOW = 512 * 1024
"""Bytes of output that a page may owe an acknowledgement for. Beyond that nothing more is read for it, and
the daemon sends a redraw instead of what was left out."""
READ_SIZE = 128 * 1024
"""Bytes of output that are read at a time."""

WS_RATE = 400.0
"""Messages a second that are taken over a WebSocket: keys, the moves of a mouse, acknowledgements;"""
WS_BURST = 800.0
"""so many at once after a pause. What comes faster waits;"""
WS_DRIVEN_SECONDS = 10.0
"""and after so many seconds of that without a pause the connection is closed."""
WS_VISITOR_RATE = 1200.0
"""The same for all WebSockets of one visitor together, which only wait;"""
WS_VISITOR_BURST = 4000.0
"""after a pause: a browser with many pages may come again at once."""
REDRAW_COST = 20.0
"""For how many messages one counts that has the daemon draw a screen,"""
PEN_COST = 40.0
"""one that has the session connected to anew,"""
FOLLOW_COST = 4.0
"""and one that begins an event stream."""
WS_PIECE = 2048
"""Bytes of what has come over a WebSocket that are parsed before others have a turn: up to 340 messages."""
WS_MAX_FRAGMENTS = 256
"""Pieces of one message: empty ones count for nothing in its bytes."""
WS_CLOSE_SECONDS = 12.0
"""Seconds in which a WebSocket that is being closed must be gone."""

TICKET_SECONDS = 60.0
"""Seconds that a link is good for."""
MAX_TICKETS = 100
"""Links that may be unused."""
CONFIRM_SECONDS = 120.0
"""Seconds in which a browser of another machine must be let in by a person."""
MAX_WAITING = 10
"""Browsers that may wait for that."""
WRONG_TRIES = 10
"""Wrong tickets from one address in a minute until no more are looked at;"""
ALL_WRONG_TRIES = 200
"""and from all addresses."""
VISIT_SECONDS = 30 * 86_400.0
"""Seconds that a browser stays let in."""
MAX_GRANTS = 500
"""Browsers, shares and tokens that are kept, of each."""
MAX_SHARE_SECONDS = 30 * 86_400.0
"""Seconds that a share or a token is good for at the most."""
SAVE_SECONDS = 60.0
"""Seconds after which it is written down when somebody was here last."""
MAX_STORED = 4 * 1024 * 1024
"""Bytes of the file with those who may come in."""
MAX_LABEL = 120
"""Characters that are kept of what a browser calls itself."""

MAX_RECORDING = 2 * 1024 * 1024 * 1024
"""Bytes of a recording that is sent."""

MAX_SUBSCRIPTIONS = 100
"""Browsers that are pushed to; each may be once."""
MAX_PUSH_BODY = 8 * 1024
"""Bytes of a subscription, as a browser sends it."""
MAX_ENDPOINT = 2048
"""Characters of the address at which a push service takes messages for a browser."""
MAX_PUSH_FILE = 1024 * 1024
"""Bytes of the file with subscriptions."""
MAX_PUSHED = 500
"""Questions of which it is kept who was told."""
PUSHES_AT_ONCE = 4
"""Messages that are on their way to push services at a time;"""
MAX_PUSHES_WAITING = 200
"""those that wait for that, or to be tried again;"""
PUSH_SECONDS = 20.0
"""and seconds for one of them: finding the service, connecting, and its answer."""
PUSH_TRIES = 4
"""How often a message is sent at the most that a service can't take now;"""
PUSH_PAUSES = (2.0, 10.0, 30.0)
"""the seconds between the tries,"""
MAX_PUSH_PAUSE = 120.0
"""and at most so many if the service says how long."""
MAX_PUSH_ANSWER = 16 * 1024
"""Bytes of a push service's answer that are read: its status and headers."""
MOST_PUSHED_APART = 3
"""Questions for one browser that are pushed each by itself; more at a time are one message."""
PUSHES_A_MINUTE = 20
"""Messages to one browser in a minute; what is more is pushed later."""
