"""How much other hosts may have of the daemon: of its memory, its time, its disk. A host may be hostile."""

from __future__ import annotations

MAX_ROWS = 2000
"""How many sessions a host may list."""
MAX_ROW = 16 * 1024
"""How many bytes one of them may have, as EDN."""
MAX_QUESTIONS = 500
"""How many questions may wait there."""
MAX_TEXTS = 3 * 1024 * 1024
"""How many characters all of these may have together."""
MAX_LINE = 8 * 1024 * 1024
"""How many bytes a host may say on one line, an answer as well as an event."""
REPORTS_WAIT = 3.0
"""Seconds that a host has to list its reports, when those of all hosts are asked for."""
MAX_EVENT_TEXT = 4000
"""How many characters of a text in an event are told to others."""

READ_SIZE = 16 * 1024
QUICK = 8 * 1024
"""How many bytes are read as EDN on the daemon's loop; more are read in a thread."""
BYTES_A_SECOND, BYTES_AT_ONCE = 512 * 1024, 16 * 1024 * 1024
"""How much a link may bring, for long and at once. What is too fast is left unread: the host waits."""
FRAMES_A_SECOND, FRAMES_AT_ONCE = 200, 4000
FLOOD_PATIENCE = 10.0
"""Seconds for which a host may say too much; then its link is closed."""

MAX_DIALING = 8
"""How many hosts are dialed at the same time."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a host that is away is dialed again; each pause is twice the one before, more or less."""
REFUSED_PAUSE = 300.0
"""The same if a person has to do something first, or if it said too much."""
CHECK_GAP = 1.0
"""Seconds between two tries of a host, however often somebody asks."""
FIRST_TRY = 1.0
"""Seconds after a link was made in which lists wait for its first try: who has just added a host, or started
the daemon, wants to see what is there. Never later."""
CHECK_WAIT = 15.0
"""Seconds that `host_check` waits for a host that it names."""

ANSWER_WAIT = 20.0
"""Seconds that a host has to answer what the link itself asks."""
PING_EVERY = 30.0
"""Seconds of silence after which it is seen whether a host is still there."""
LEAST_SKEW = 2.0
"""Seconds that the clock of a host is off before that is reckoned with."""
GATHER = 0.1
"""Seconds for which changes are gathered before the changed sessions are asked for."""
ASKED_SINGLY = 12
"""How many changed sessions are asked for one by one; if there are more, the list is asked for."""
LIST_SHARE = 8.0
"""For so many times the time that a list took, the next one is not asked for."""
LIST_AGE = 60.0
"""Seconds after a change when the list is asked for once, in case an event did not tell all."""

MAX_PASSED = 32
"""How many ops may be under way at one host that are passed on."""
MAX_CALLERS = 6
"""How many connections for them a host gets: one for each of those who ask, by what they ask with."""
CALLER_KEPT = 30.0
"""Seconds for which such a connection is kept when nothing is asked."""
PASSED_WAIT = 60.0
"""Seconds that a host has to answer what is passed on, unless the op itself waits for something."""
LONGEST_WAIT = 24 * 3600.0

KEEP_EVERY = 20.0
"""Seconds between two times that what is known of a host is written down."""
MAX_KEPT = 8 * 1024 * 1024
"""How many bytes of that are read again."""
KEPT_WHOLE = 4000
"""How many characters of what will happen, of each question, are written down."""
