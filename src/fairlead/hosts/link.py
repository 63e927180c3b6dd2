"""The link to one host: it follows what happens there, and knows how everything was last.

The list of sessions and all questions are asked for once. After that events tell what changed, and only that
is asked for again. A host that is away is dialed again and again, with longer and longer pauses; what was
known of it stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..client.calls import RequestError, plain
from ..client.hosts.dial import HostAway, HostRefused
from ..client.launch import NoDaemon
from ..formats.edn import Keyword
from ..formats.shown import one_line
from ..system.settings import SettingError
from ..wire import rpc
from ..wire.rpc import fields
from ..wire.rpc_catalog import TOPICS
from . import limits, rows
from .budget import SaysTooMuch
from .connection import FarAnswer, FarConnection
from .kept import KeptHost, KeptTexts

log = logging.getLogger("fairlead")

FOLLOWED = tuple(topic for topic in TOPICS if topic.startswith("sessions/") and topic != "sessions/said")
"""What is followed of a host. What sessions say is too much to be carried for nobody."""
QUESTIONS = "sessions/questions"
_SINCE = Keyword("since")
MAX_WHY = 300
_KEPT_KEYS = ("branch", "directory_gone")
"""What only lists tell: of one session it is as it was."""

HeardEvent = Callable[[str, Mapping[Any, Any]], None]


class HostLink:
    """One host. `open` makes a connection whose events go to the function that it is given; `told` gets what
    happens in its sessions, as topic and data. `changed` is called when its state did, or what is known of
    its sessions and questions."""

    def __init__(
        self,
        name: str,
        how: str,
        open: Callable[[HeardEvent], Awaitable[FarConnection]],
        told: Callable[[HostLink, str, dict[Any, Any]], None],
        changed: Callable[[HostLink, bool], None],
        kept: KeptHost,
        kept_texts: KeptTexts,
    ) -> None:
        self.name = name
        self.how = how
        self.state = "connecting"
        """`connecting`, `here`, `away`, or `refused` if a person has to do something."""
        self.why = ""
        self.version = kept.version
        self.seen_at = kept.seen_at
        """When it said something last."""
        self.skew = 0.0
        """How many seconds its clock is behind ours, if that is worth a word."""
        self.latency: float | None = None
        """How many seconds it takes to answer."""
        self.place: rows.Row = {}
        """What it says of itself to those who look for a place."""
        self.sessions: dict[str, rows.Row] = {each["id"]: each for each in kept.sessions}
        self.questions: dict[str, rows.Row] = {each["token"]: each for each in kept.questions}
        self.is_unkept = False
        """Whether something changed that was not written down."""
        self._open = open
        self._told = told
        self._changed = changed
        self._texts = dict(kept_texts.sessions)  # as they are written; those that changed are not there
        self._question_texts = list(kept_texts.questions)
        self._listed_at = time.monotonic() - max(0.0, time.time() - (kept.seen_at or time.time()))
        self._row_at: dict[str, float] = {}
        self._stale: set[str] = set()
        self._is_list_stale = False
        self._are_questions_stale = False
        self._list_not_before = 0.0
        self._list_due: float | None = None
        self._dirty = asyncio.Event()
        self._poked = asyncio.Event()
        self._tried = asyncio.Event()  # set when a try is over, and another one when the next begins
        self._tried_at = -limits.CHECK_GAP
        self._connection: FarConnection | None = None
        self.made_at = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._run())

    # --- what is known --------------------------------------------------------------------------------------

    @property
    def is_here(self) -> bool:
        return self.state == "here"

    @property
    def is_new(self) -> bool:
        """True while it is dialed for the first time."""
        return self.state == "connecting"

    @property
    def tried(self) -> asyncio.Event:
        """Is set when the try that is under way is over."""
        return self._tried

    @property
    def kept(self) -> KeptHost:
        return KeptHost(
            self.seen_at, self.version, list(self.sessions.values()), list(self.questions.values())
        )

    @property
    def row(self) -> dict[str, Any]:
        """The host as it is listed."""
        working = sum(each["activity"]["state"] == "working" for each in self.sessions.values())
        return {
            "name": self.name,
            "how": self.how,
            "state": self.state,
            "why": self.why,
            "version": self.version,
            "seen_at": time.time() if self.is_here else self.seen_at,
            "latency": self.latency,
            "clock_skew": self.skew,
            "sessions": len(self.sessions),
            "questions": len(self.questions),
            **self.place,
            **({"working": working} if self.place else {}),
        }

    def session_texts(self, kind: str | None, now: float) -> list[str]:
        """Its sessions as EDN, with their places in the namespace of all hosts. What does not change is not
        written anew: many ask for the list, and often."""
        found = []
        for id, row in self.sessions.items():
            if kind not in (None, row["kind"]):
                continue
            known = self._texts.get(id)
            if known is None:
                known = self._texts[id] = rows.session_text(self.name, row)
            idle = known.idle
            if idle is not None:
                idle += max(0.0, now - self._row_at.get(id, self._listed_at))
            shown = "nil" if idle is None else f"{idle:.3f}"
            found.append(f"{known.text}, :idle {shown}{self._away}}}")
        return found

    def question_texts(self) -> list[str]:
        """Its questions, the same way."""
        return [f"{text}{self._away}}}" for text in self._question_texts]

    @property
    def _away(self) -> str:
        return "" if self.is_here else ", :away true"

    async def reports(self, limit: int) -> list[dict[Any, Any]]:
        """What verifiers said there last, named likewise. It is not kept: nothing of a host that is away, or
        does not answer soon."""
        connection = self._connection
        if connection is None or not self.is_here:
            return []
        try:
            answer = await connection.ask("verify_reports", fields(limit=limit), wait=limits.REPORTS_WAIT)
        except (RequestError, ConnectionError, TimeoutError):
            return []
        found = await asyncio.to_thread(rows.report_rows, _of(answer, "reports"), limit)
        return [
            rows.fields_of({**row, "session_id": f"{self.name}:{row['session_id']}", "host": self.name})
            for row in found
        ]

    # --- being there ----------------------------------------------------------------------------------------

    def poke(self) -> asyncio.Event:
        """Try at once, if it is away. Returns what is set when that try is over."""
        if not self.is_here and self._tried.is_set():
            self._tried = asyncio.Event()
            self._poked.set()
        return self._tried

    async def _run(self) -> None:
        pause = limits.FIRST_PAUSE
        while True:
            self._tried_at = time.monotonic()
            if self._tried.is_set():
                self._tried = asyncio.Event()
            was_here = False
            state, why = "away", ""
            try:
                self._connection = connection = await self._open(self._heard)
                try:
                    await self._be_there(connection)
                    was_here = True
                    await self._follow(connection)
                finally:
                    self._connection = None
                    await connection.close()
            except asyncio.CancelledError:
                raise
            except HostRefused as error:
                state, why = "refused", error.why
            except SaysTooMuch as error:
                state, why = "refused", str(error)
            except HostAway as error:
                why = error.why
            except RequestError as error:
                state, why = "refused", f"its daemon says: {error}"
            except TimeoutError:
                why = "its daemon does not answer"
            except (NoDaemon, ConnectionError, SettingError, OSError, ValueError) as error:
                why = str(error) or type(error).__name__
            except Exception as error:  # whatever a host says, the others go on
                log.exception("the link to the host %s failed", self.name)
                why = f"{type(error).__name__}: {error}"
            self._be(state, one_line(why, MAX_WHY))
            self._tried.set()
            if was_here and state == "away":
                pause = limits.FIRST_PAUSE
            wait = limits.REFUSED_PAUSE if state == "refused" else pause
            pause = min(limits.LONGEST_PAUSE, 2 * pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait * random.uniform(0.7, 1.3)):
                    await self._poked.wait()
            if self._poked.is_set():
                self._poked.clear()
                pause = limits.FIRST_PAUSE
                await asyncio.sleep(max(0.0, self._tried_at + limits.CHECK_GAP - time.monotonic()))

    async def _be_there(self, connection: FarConnection) -> None:
        """Follow what happens from now on, and know how all is now."""
        self._stale.clear()
        self._is_list_stale = self._are_questions_stale = False
        self._list_due = None
        self.version = connection.version
        await connection.ask("subscribe", fields(topics=list(FOLLOWED)))
        await self._ask_place(connection)
        await self._ask_list(connection)
        await self._ask_questions(connection)
        self._be("here", "")
        self._tried.set()
        self._changed(self, False)

    def _be(self, state: str, why: str) -> None:
        if (state, why) == (self.state, self.why):
            return
        if self.is_here or state == "here":
            self.seen_at = time.time()
            self.is_unkept = True
        if state == "here" or self.is_here:
            log.info("the host %s is %s%s", self.name, state, f": {why}" if why else "")
        self.state, self.why = state, why
        if state != "here":
            self.latency = None
        self._changed(self, True)

    async def _follow(self, connection: FarConnection) -> None:
        """Ask for what changed, until the connection is over. Raises why it is."""
        over = asyncio.ensure_future(connection.over.wait())
        refreshed = 0.0
        try:
            while connection.is_open:
                await self._wait(over)
                if not connection.is_open:
                    break
                if self._dirty.is_set():
                    # the first change is seen at once, those that come soon after it together
                    if (left := refreshed + limits.GATHER - time.monotonic()) > 0:
                        await asyncio.wait([over], timeout=left)
                    self._dirty.clear()
                    await self._refresh(connection)
                    refreshed = time.monotonic()
                elif self._list_due is not None and time.monotonic() >= self._list_due:
                    self._list_due = None
                    await self._ask_list(connection)
                    self._changed(self, False)
                else:
                    began = time.monotonic()
                    await connection.ask("ping")
                    self.latency = time.monotonic() - began
                    await self._ask_questions(connection)
                    await self._ask_place(connection)
        finally:
            over.cancel()
        raise connection.fault or ConnectionError("the connection is over")

    async def _wait(self, over: asyncio.Future[Any]) -> None:
        """Until something changed, something is due, or the connection is over."""
        left = limits.PING_EVERY
        if self._list_due is not None:
            left = min(left, max(0.05, self._list_due - time.monotonic()))
        dirty = asyncio.ensure_future(self._dirty.wait())
        try:
            await asyncio.wait([over, dirty], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            dirty.cancel()

    async def _refresh(self, connection: FarConnection) -> None:
        is_new = False
        if len(self._stale) > limits.ASKED_SINGLY:
            self._is_list_stale = True
        if self._is_list_stale:
            left = self._list_not_before - time.monotonic()
            if left > 0:
                self._list_due = min(self._list_due or float("inf"), time.monotonic() + left)
            else:
                await self._ask_list(connection)
                is_new = True
        else:
            stale, self._stale = self._stale, set()
            for id in stale:
                is_new = await self._ask_session(connection, id) or is_new
            if stale:
                due = time.monotonic() + limits.LIST_AGE
                self._list_due = min(self._list_due or due, due)
        if self._are_questions_stale:
            is_new = await self._ask_questions(connection) or is_new
        if is_new:
            self._changed(self, False)

    # --- asking ---------------------------------------------------------------------------------------------

    async def _ask_list(self, connection: FarConnection) -> None:
        self._is_list_stale = False
        self._stale.clear()
        self._list_due = None
        began = time.monotonic()
        answer = await connection.ask("session_list")
        self.latency = self.latency or time.monotonic() - began
        found, texts = await _in_thread(self._read_sessions, _of(answer, "sessions"))
        self._list_not_before = time.monotonic() + limits.LIST_SHARE * (time.monotonic() - began)
        self._listed_at = time.monotonic()
        self._row_at.clear()
        self.sessions, self._texts = found, texts
        self._seen()

    def _read_sessions(self, said: Any) -> tuple[dict[str, rows.Row], dict[str, rows.RowText]]:
        found = {id: rows.on_our_clock(row, self.skew) for id, row in rows.session_rows(said).items()}
        return found, rows.session_texts(self.name, found)

    def _read_questions(self, said: Any) -> tuple[dict[str, rows.Row], list[str]]:
        found = rows.question_rows(said)
        return found, rows.question_texts(self.name, found)

    async def _ask_session(self, connection: FarConnection, id: str) -> bool:
        """Ask for one session. True if something of it is new."""
        try:
            answer = await connection.ask("session_find", fields(session_id=id))
        except RequestError as error:
            if error.code != rpc.ErrorCode.NOT_FOUND.value:
                raise
            self._texts.pop(id, None)
            self._seen()
            return self.sessions.pop(id, None) is not None
        row = rows.session_row(_of(answer, "session") or {})
        if row is None or row["id"] != id:
            return False
        before = self.sessions.get(id)
        if before is None and len(self.sessions) >= limits.MAX_ROWS:
            return False
        kept = {key: before[key] for key in _KEPT_KEYS if key in before} if before is not None else {}
        self.sessions[id] = {**kept, **rows.on_our_clock(row, self.skew)}
        self._row_at[id] = time.monotonic()
        self._texts.pop(id, None)
        self._seen()
        return True

    async def _ask_questions(self, connection: FarConnection) -> bool:
        """Ask for all questions. True if they are others now."""
        self._are_questions_stale = False
        answer = await connection.ask("approvals")
        found, texts = await _in_thread(self._read_questions, _of(answer, "approvals"))
        is_new: bool = found != self.questions
        self.questions, self._question_texts = found, texts
        self._seen()
        return is_new

    async def _ask_place(self, connection: FarConnection) -> None:
        """Ask what it says of itself. An older daemon does not know the question."""
        began = time.time()
        try:
            answer = await connection.ask("host_row")
        except RequestError as error:
            if error.code != rpc.ErrorCode.OP_NOT_SUPPORTED.value:
                raise
            return
        self.place = rows.place_row(answer.data)
        if (there := rows.clock_of(answer.data)) is not None:
            skew = (began + time.time()) / 2 - there
            skew = skew if abs(skew) >= limits.LEAST_SKEW else 0.0
            if abs(skew - self.skew) >= limits.LEAST_SKEW:
                self.skew = skew
                self._is_list_stale = True  # as it is written with the skew
                self._dirty.set()

    def _seen(self) -> None:
        self.seen_at = time.time()
        self.is_unkept = True

    # --- what happens there ---------------------------------------------------------------------------------

    def _heard(self, topic: str, said: Mapping[Any, Any]) -> None:
        """Something happened there."""
        if topic not in FOLLOWED and topic != QUESTIONS:
            return
        data = rows.event_data(said, TOPICS.get(topic, ()))
        if data is None:
            return
        if topic == QUESTIONS:
            self._are_questions_stale = True
            self._dirty.set()
            return
        id = data.get(Keyword("session-id"))
        if id is None:
            return
        if self.skew and data.get(_SINCE):
            data[_SINCE] += self.skew
        row = self.sessions.get(id)
        if topic == "sessions/state" and row is not None:
            before = row["activity"]["state"]
            self._take_state(id, row, data)
            if "waits" in (before, data[Keyword("state")]):
                self._are_questions_stale = True
                self._dirty.set()
            if data[Keyword("state")] != "working":  # which is all there is to know
                self._mark(id)
        else:
            self._mark(id)
            self._are_questions_stale = self._are_questions_stale or topic == "sessions/needs-person"
        if self.is_here:
            told = dict(data)
            told[Keyword("session-id")] = f"{self.name}:{id}"
            told[Keyword("host")] = self.name
            self._told(self, topic, told)

    def _mark(self, id: str) -> None:
        """A session has changed in a way that events don't tell whole."""
        if len(self._stale) <= limits.ASKED_SINGLY:  # with more, all are asked for
            self._stale.add(id)
        self._dirty.set()

    def _take_state(self, id: str, row: rows.Row, data: Mapping[Any, Any]) -> None:
        given = {
            "evidence": None,
            **{key: value for key, value in plain(data).items() if key != "session_id"},
        }
        now = rows.session_row({**row, "activity": given})
        if now is not None:
            self.sessions[id] = now
            self._texts.pop(id, None)
            self._seen()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def _of(answer: FarAnswer, key: str) -> Any:
    """What an answer has for a key, whatever the answer is."""
    return answer.data.get(Keyword(key)) if isinstance(answer.data, Mapping) else None


async def _in_thread(do: Callable[[Any], Any], said: Any) -> Any:
    """Make rows of what was said: in a thread if there is much."""
    if isinstance(said, list | tuple) and len(said) > limits.ASKED_SINGLY:
        return await asyncio.to_thread(do, said)
    return do(said)
