"""The ops of rpc-edn that read a session: its figures, its prompts, its last answer, a page of all of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

from ....agent.conversation import Conversation
from ....agent.journal import Entry, Said
from ....agent.messages import Assistant, User, text_of
from ....agent.ports import Phase
from ....agent.recall.export import html
from ....agent.recall.transcripts import Transcript
from ....system.opening import UNFOLLOWED
from ....wire.rpc import ErrorCode, fields
from .. import frames
from ..handlers import Call, Data, OpError, op

MAX_HISTORY = 100
"""How many sessions `session_history` returns at the most."""
WRITTEN = 1024 * 1024
"""How many characters of a page are written in one go: others can't run while they are encoded."""


Listing = Callable[[str | None, int, int], Awaitable[Sequence[Transcript]]]
"""Lists sessions on disk: of a directory or all, how many, from which on."""


class AgentContents:
    """`session` finds the session that a request means; `listed` knows those that are not open, too."""

    def __init__(self, session: Callable[[Call], Conversation], listed: Listing | None) -> None:
        self.session = session
        self._listed = listed

    @op
    async def session_history(self, cwd: str | None = None, from_: int = 0, limit: int = MAX_HISTORY) -> Data:
        rows = await self._listed(cwd, min(limit, MAX_HISTORY), from_) if self._listed is not None else ()
        return fields(
            sessions=[
                fields(id=row.id, name=row.name, what=row.first_message, cwd=row.cwd, modified=row.modified)
                for row in rows
            ]
        )

    @op
    async def export_html(self, call: Call, path: str = "") -> Data:
        """Write the conversation as a page: to a path, or beside the journal. Never over another file."""
        session = self.session(call)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | UNFOLLOWED | (os.O_EXCL if path else os.O_TRUNC)
        path = path or session.journal.path.removesuffix(".jsonl") + ".html"
        path = os.path.join(session.cwd, os.path.expanduser(path))
        name, said = frames.display_name(session), session.messages

        def write() -> None:
            with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                page = html(name, said)
                for at in range(0, len(page), WRITTEN):
                    file.write(page[at : at + WRITTEN])

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            raise OpError(ErrorCode.FAILED, f"can't write {path}: {error.strerror}") from None
        return fields(path=path)

    @op
    async def get_session_stats(self, call: Call) -> Data:
        session = self.session(call)
        stats = session.stats
        return fields(
            stats=fields(
                phase=session.phase.value,
                is_idle=session.is_idle,
                is_streaming=session.phase in (Phase.STREAMING, Phase.RETRYING),
                is_compacting=session.phase is Phase.COMPACTING,
                is_retrying=session.phase is Phase.RETRYING,
                model=fields(provider=session.model.provider, id=session.model.id),
                thinking_level=session.effective_thinking,
                pending_messages=session.pending_messages,
                retry_attempt=session.retry_attempt,
                auto_retry_enabled=session.auto_retry,
                auto_compaction_enabled=session.auto_compaction,
                context_fraction=session.context_tokens / session.model.window
                if session.model.window
                else None,
                journal_entries=len(session.journal.entries),
                session_id=session.id,
                session_file=session.journal.path,
                user_messages=stats.user_messages,
                assistant_messages=stats.assistant_messages,
                tool_calls=stats.tool_calls,
                tool_results=stats.tool_results,
                total_messages=len(session.messages),
                usage=frames.usage(stats.usage),
            )
        )

    @op
    async def get_fork_messages(self, call: Call) -> Data:
        branch = frames.recent(self.session(call).journal.branch)
        prompts = [fields(entry_id=entry.id, text=text_of(said)) for entry, said in _prompts(branch)]
        return fields(messages=prompts)

    @op
    async def get_last_assistant_text(self, call: Call) -> Data:
        said = self.session(call).messages
        last = next((text_of(each) for each in reversed(said) if isinstance(each, Assistant)), None)
        return fields(text=last)


def _prompts(branch: list[Entry]) -> list[tuple[Entry, User]]:
    return [
        (entry, entry.body.message)
        for entry in branch
        if isinstance(entry.body, Said) and isinstance(entry.body.message, User)
    ]
