"""rpc-edn's vocabulary as data: the one table of ops, and what each event must carry.

Checking, `describe`, the typed parameters of handlers, the clients' calls and the table in docs/rpc.md are
made from it. A parameter has the same meaning in every op that takes it, so its kind stands once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, NamedTuple

from ..formats.edn import Keyword
from ..formats.halves import encodable


class ParamType(NamedTuple):
    """What a parameter's value must be."""

    wanted: str
    """In words, for the error."""
    holds: Callable[[Any], bool]
    type: str = "str"
    """The annotation of the parameter in a handler."""
    read: Callable[[Any], Any] = lambda value: value
    """Makes that of the value on the wire."""


class Op(NamedTuple):
    """What an op takes and answers, and how it may be run. `doors/rpc/handlers.py` ties a handler to it."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    """The keys that the response's data may have."""
    does: str = ""
    """In a few words, for the reference page."""
    beside: bool = False
    """It may take long and runs beside others. All others are done one after the other, in their order."""
    cancellable: bool = False
    """`cancel` ends it by itself: it only waits, so that nothing is left half done."""
    needs_key: bool = False
    """It needs the key of a model, which the client may be asked for first."""
    reads: bool = False
    """It changes nothing. For all others it is looked at who asks: an agent's commands may not answer for a
    person."""
    own: bool = False
    """It decides over a session: an agent's command may do that only to its own, or to one that it made."""
    repeatable: bool = False
    """Done twice it is as done once, so a client may ask again when the daemon went away meanwhile."""


def _word(value: Any) -> Any:
    return value.name if isinstance(value, Keyword) else value


def _one_of(*words: str) -> ParamType:
    return ParamType("one of " + ", ".join(f'"{word}"' for word in words), lambda value: value in words)


def _one_word_of(*words: str) -> ParamType:
    """One of these, as a string or a keyword."""
    return ParamType(_one_of(*words).wanted, lambda value: _word(value) in words, read=_word)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list | tuple | frozenset) and all(type(item) is str for item in value)


STRING = ParamType("a string", lambda value: type(value) is str)
NON_BLANK = ParamType("non-empty string", lambda value: type(value) is str and value.strip() != "")
TEXT = STRING._replace(read=encodable)
"""One that is kept or told, and no name of a file."""
WORD = ParamType(
    "a non-empty string or a keyword",
    lambda value: isinstance(value, Keyword) or (type(value) is str and value.strip() != ""),
    read=_word,
)
BOOLEAN = ParamType("true or false", lambda value: type(value) is bool, "bool")
MAP = ParamType("a map", lambda value: isinstance(value, Mapping), "Mapping[Any, Any]")
STRINGS = ParamType("a vector of strings", _is_strings, "list[str]", list)
LEVEL = ParamType(
    "a keyword, a string or an integer",
    lambda value: isinstance(value, Keyword | str | int) and not isinstance(value, bool),
    "str | int",
    _word,
)
ANYTHING = ParamType("anything", lambda value: True, "Any")
COUNT = ParamType(
    "an integer from 1 to 65535", lambda value: type(value) is int and 0 < value <= 0xFFFF, "int"
)
PID = ParamType("a process id", lambda value: type(value) is int and 0 < value <= 0x7FFFFFFF, "int")
SECONDS = ParamType(
    "a number of seconds",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9,
    "float",
)
LINE = ParamType("a line's number", lambda value: type(value) is int and 0 <= value < 2**63, "int")
RECORD = ParamType(
    "true, false or a file's path", lambda value: type(value) in (bool, str) and value != "", "bool | str"
)
DIRECTORY = ParamType(
    "the absolute path of a directory",
    lambda value: type(value) is str and value.startswith("/") and "\0" not in value,
)
COMMAND = ParamType(
    "a vector of strings, the program first",
    lambda value: _is_strings(value) and len(value) > 0,
    "list[str]",
    list,
)
VECTOR = ParamType("a vector", lambda value: isinstance(value, list | tuple | frozenset), "list[Any]", list)

PARAMS: Mapping[str, ParamType] = MappingProxyType(
    {
        "action-name": WORD,
        "agent": TEXT,
        "allowed": BOOLEAN,
        "always": BOOLEAN,
        "always-label": TEXT,
        "argv": COMMAND,
        "at-word": BOOLEAN,
        "behavior": _one_word_of("steer", "queue"),
        "branch": NON_BLANK,
        "brief": BOOLEAN,
        "by-keys": BOOLEAN,
        "call-id": TEXT,
        "client-info": MAP,
        "continue": BOOLEAN,
        "cols": COUNT,
        "command": STRING,
        "custom-instructions": STRING,
        "cwd": STRING,
        "deferred": BOOLEAN,
        "inherit": BOOLEAN,
        "dialog-id": NON_BLANK,
        "digest": NON_BLANK,
        "direction": ANYTHING,
        "dry-run": BOOLEAN,
        "enabled": BOOLEAN,
        "entity": STRING,
        "env": MAP,
        "entry-id": NON_BLANK._replace(wanted="non-empty entry id"),
        "error-message": STRING,
        "event": _one_of(
            *("start", "stop", "error", "interrupted", "tool", "tool-ended", "replied", "notification"),
            *("subagent-ended", "session-started", "session-ended"),
        ),
        "exit": BOOLEAN,
        "follow": BOOLEAN,
        "force": BOOLEAN,
        "follower": NON_BLANK,
        "format": _one_of("text", "ansi", "cells", "html", "svg", "png"),
        "from": LINE,
        "handover": BOOLEAN,
        "hosts": BOOLEAN,
        "idle": SECONDS,
        "images": ANYTHING,
        "input": STRING,
        "into": NON_BLANK,
        "job-id": NON_BLANK,
        "key": STRING,
        "kind": NON_BLANK,
        "key-names": STRINGS,
        "keys": STRINGS,
        "level": LEVEL,
        "message": NON_BLANK,
        "model": NON_BLANK._replace(wanted="PROVIDER/ID"),
        "model-id": NON_BLANK,
        "limit": COUNT,
        "may-allow": BOOLEAN,
        "mode": NON_BLANK,
        "name": NON_BLANK,
        "needle": STRING,
        "parent-session": ANYTHING,
        "option": NON_BLANK,
        "options": STRINGS,
        "other": NON_BLANK._replace(read=encodable),
        "owner": PID,
        "paste": STRING,
        "path": STRING,
        "project": DIRECTORY,
        "prompt": TEXT,
        "prompt-id": NON_BLANK._replace(read=encodable),
        "protocol-version": STRING,
        "provider": WORD,
        "query": NON_BLANK,
        "python": STRING,
        "reason": TEXT,
        "record": RECORD,
        "redo": BOOLEAN,
        "regex": STRING,
        "report": LINE,
        "request-id": NON_BLANK._replace(read=encodable),
        "result": ANYTHING,
        "revision": NON_BLANK,
        "rows": COUNT,
        "scrollback": BOOLEAN,
        "sandbox": BOOLEAN,
        "mcp-servers": VECTOR,
        "once": BOOLEAN,
        "session-id": NON_BLANK._replace(read=encodable),
        "session-path": NON_BLANK._replace(wanted="non-empty path string"),
        "since": NON_BLANK,
        "shows": TEXT,
        "stage": _one_of("written", "accepted", "started", "ended"),
        "status": _one_word_of("submitted", "cancelled", "failed"),
        "statuses": VECTOR,
        "stop": BOOLEAN,
        "subagent": TEXT,
        "tags": STRINGS,
        "text": TEXT,
        "timeout": SECONDS,
        "title": TEXT,
        "token": NON_BLANK,
        "topics": STRINGS,
        "turns": COUNT,
        "ui/action": ANYTHING,
        "value": ANYTHING,
        "variable": NON_BLANK,
        "what": NON_BLANK._replace(read=encodable),
        "whole": TEXT,
    }
)


_TABLE = """
handshake: / client-info protocol-version cwd project session-id key-names agent -> server-info
    begin; everything else waits for it [reads]
ping: -> pong protocol-version
    reply at once [reads]
cancel: request-id -> accepted
    end a request that waits: `terminal_wait`, `bash`, `compact` [reads]
describe: -> ops params topics error-codes
    the schema of ops, parameters, topics and error codes [reads]
subscribe: / topics session-id since hosts -> subscribed cursor replayed
    receive the events of topics, beginning with the current state and what was missed since a cursor; \
with `hosts` also those of sessions of other hosts [reads]
unsubscribe: / topics -> subscribed
    stop receiving the events of topics [reads]
terminal_start: name argv / cwd env inherit cols rows deferred record owner -> name pid recording
    start a program in a terminal; `inherit`: with the daemon's own environment, and env over it [beside]
terminal_list: / brief -> sessions questions
    all terminal sessions, and how many questions are pending [repeatable reads]
terminal_stop: name -> exit-code
    end a session's program [beside own]
terminal_send: name / text keys paste -> accepted
    type text and keys, or paste text
terminal_screen: name / format scrollback -> name format screen cols rows
    the contents of a session's screen [beside repeatable reads]
terminal_lines: name / limit follow follower from timeout -> lines first oldest complete next follower ended
    the last lines, or the next ones [beside reads]
terminal_search: name / needle regex limit -> matches
    find a text of at most 4,000 characters in the scrollback [beside repeatable reads]
terminal_wait: name / text regex idle exit timeout scrollback request-id -> matched reason match exit-code
    wait until a text is shown or printed, until it is quiet, or until it ends \
[beside cancellable repeatable reads]
terminal_resize: name cols rows -> accepted
    set the size of a session's terminal
terminal_record: name / path stop -> path
    record a session, or stop recording
session_list: / kind brief hosts -> sessions questions hosts
    sessions of all kinds, or of one, and how many questions are pending; with `hosts` also the sessions of \
other hosts as they were known last, as `HOST:ID` [repeatable reads]
session_find: / name session-id -> session others
    a session by its name, its id or a prefix of it, and others with the same name [repeatable reads]
session_state: / name session-id -> session weighed
    what a session does, since when, and all that says so [repeatable reads]
session_seen: / name session-id -> accepted
    a person has seen what a session did [repeatable]
session_stop: / name session-id -> session others exit-code stopped dropped agent-ended
    stop a program, or an agent's turn [beside own]
session_remove: / name session-id -> session others path
    remove a session that does nothing; an agent's journal is moved to the trash [beside]
session_prompt: text / name session-id prompt-id timeout -> accepted session queued
    prompt an agent, also one in a terminal; with a client's id only once, however often it is requested. \
What is in the way in a terminal, such as a dialog or a draft, is an error, with a timeout after so long
prompt_receipt: prompt-id / name session-id timeout stage \
-> state written accepted started ended place outcome reason text waits-for blocked
    how far an agent has got with a prompt, and when; with a timeout, waits until it is that far or ended. \
`waits-for` is what is in its way, or what its agent asks; `blocked` if a person has to clear that away \
[beside cancellable repeatable reads]
prompt_receipts: / name session-id limit -> session receipts
    the last prompts of a session and what became of them [beside repeatable reads]
prompt_withdraw: prompt-id / name session-id reason -> withdrawn
    take back a prompt that waits: it will not be said [beside repeatable]
session_lines: / name session-id limit from timeout -> lines first oldest complete next
    a program's output, or an agent's messages and calls, as text: the last lines, or those after \
`from` [beside repeatable reads]
session_wait: / name session-id timeout -> matched reason outcome
    wait until a program or an agent's turn has ended [beside cancellable repeatable reads]
session_tie: / name session-id -> accepted
    stop what a session does when this request ends, as it does when its client goes away, however it dies \
[beside cancellable own]
timeline: / name session-id limit -> session turns total aside
    a session's last turns: when they began and ended, tools, questions, checks, tokens and cost \
[beside repeatable reads]
session_diff: / name session-id other brief -> session other since base branch commits ahead files \
total insertions deletions patch cut left-out
    what changed in a session's directory since it began there: commits, what is not committed and new \
files together, or how the files of another session differ from its own; `brief` leaves out the patch \
[beside repeatable reads]
session_undo: / name session-id turns dry-run force redo digest -> session turns top files others left \
unrecorded notes refusal digest
    put files back as they were before the last turns that changed any, or with `redo` before the last \
undo; a dry run only says what would be done, and with its `digest` nothing else is. What somebody changed \
since is overwritten only with `force` [beside own]
worktree_add: name project / branch revision -> worktree created project notes
    a git worktree with a branch of its own for a session of this name, or the one that it has [beside]
worktree_list: -> worktrees
    the worktrees that were made for sessions [beside repeatable reads]
worktree_losses: name -> worktree losses changed commits ignored digest
    what removing a worktree would lose [beside repeatable reads]
worktree_merge_preview: name / into message -> worktree into commits ahead uncommitted files total \
insertions deletions refusal digest
    what a merge would do, and the reason why it would be refused [beside repeatable reads]
worktree_merge: name / into message digest -> worktree into commit files merged
    merge what a session did in its worktree into the branch it came from; with a message, commit first what \
is not committed; with the `digest` of a preview, only what that showed [beside]
worktree_remove: name / force digest -> worktree kept
    remove a worktree; if work in it is nowhere else, only with `force`, and it is kept under a ref; with \
the `digest` of its losses only if these are still the same [beside]
verify_target: / name session-id -> session-id kind socket project file model line turns
    where a session's verifiers connect [beside reads]
verify_reports: / session-id limit hosts -> reports hosts
    verifiers' reports; with `hosts` also those of other hosts that are there [beside reads]
verify_report: report -> report
    a whole report with its sections, commands and evidence, by its number [reads]
terminal_turn: name event / agent prompt path session-id owner request-id timeout call-id subagent \
-> accepted reason turn correction
    report an agent's turns and what it does in them (called by its hooks) [beside]
terminal_permission: name request-id what whole / agent title reason always-label may-allow call-id \
subagent by-keys shows session-id owner -> accepted option by reason
    ask for a permission that an agent in a terminal needs, and wait for the answer (called by its hooks) \
[beside cancellable]
config: -> rows
    the settings in force [reads]
daemon_status: -> version pid started-at sessions supervised runtime-dir log-path passepartout-port
    the daemon's status [repeatable reads]
host_list: -> hosts
    the other hosts: whether each is there, since when it is not, and why [repeatable reads]
host_row: -> labels capacity processors load working now
    what this host says of itself to those who look for a place: its labels, how many turns it takes at a \
time, processors, load, and sessions that work now [repeatable reads]
host_check: / name -> hosts
    see which hosts there are now, and try those that are away at once; wait a while for one that is named \
[beside repeatable reads]
daemon_stop: / handover -> accepted started-at interrupted-turns dropped-prompts
    stop the daemon; sessions keep running [beside]
daemon_restart: / env python -> accepted started-at interrupted-turns dropped-prompts
    restart the daemon [beside]
health: -> status checked-at checks
    check the daemon and what it needs [beside reads]
approvals: / token hosts -> approvals hosts
    everything that waits for a person, in all directories; with `hosts` also on other hosts, as \
`HOST:TOKEN` [reads]
approval_seen: / token -> accepted
    a person has seen a question, or all that wait: they are not notified of it [repeatable]
approval_settle: token allowed / always option text -> accepted approval
    answer a question
ask_person: token text project / title options -> answered option text by
    ask a person, and wait for the answer; asked again with the same token, keep waiting \
[beside cancellable repeatable]
agent_programs: -> programs
    the processes that count as agents', each with its agent [repeatable reads]
caller: -> agent session reach
    whether the daemon takes the client for an agent's, and what agents may reach [repeatable]
notify: text / title -> accepted
    send a notification to the user [beside]
prompt: message / images session-id -> accepted
    start a turn [needs_key]
prompt_while_streaming: message / behavior images session-id -> accepted behavior
    send a message during a turn, or after it [needs_key]
steer: message / images session-id -> accepted
    send a message during a turn [needs_key]
follow_up: message / images session-id -> accepted
    send a message after the turn [needs_key]
say: message prompt-id / images session-id -> accepted prompt-id
    start a turn, or send a message during the running one; only once, however often it is requested with \
this id [needs_key repeatable]
abort: / session-id prompt-id -> accepted dropped-steering-text
    end the turn at once, and don't say this prompt if it waits [repeatable own]
abort_retry: / session-id -> accepted
    don't retry a model that failed [own]
interrupt: / session-id at-word -> accepted pending dropped-steering-text
    end the turn after the running tool; at-word: and an answer with the word that it is in [repeatable own]
new_session: / session-id parent-session name -> session-id session-file
    create a session and switch to it
open_session: / name continue cwd agent mode model sandbox mcp-servers once -> \
session-id session-file created cursor
    open the session of that name, or the directory's last one, or a new one, with this agent
switch_session: / session-id session-path -> session-id session-file
    switch to another session
list_sessions: / session-id -> active-session-id sessions
    the loaded sessions [reads]
session_history: / cwd from limit -> sessions
    the agent sessions on disk, of a directory or all, most recently used first [repeatable reads]
fork: entry-id / session-id -> session-id session-file
    copy a session up to a message, and switch to the copy
set_session_name: name / session-id -> session-name
    rename a session [own]
compact: / custom-instructions session-id -> compacted summary
    summarize older messages [beside own]
set_auto_compaction: enabled / session-id -> enabled
    whether older messages are summarized when the context is full [own]
set_auto_retry: enabled / session-id -> enabled
    whether a model that failed is asked again [own]
get_state: / session-id -> state
    a session's state [repeatable reads]
get_view: / session-id -> state
    the same, with its title, modes and options, and the message in progress [repeatable reads]
get_messages: / session-id from limit -> messages first total
    messages, at most 2 MiB of text: if there are more, the last ones, from `:first` on [repeatable reads]
get_session_stats: / session-id -> stats
    counts of messages, calls and tokens [reads]
get_fork_messages: / session-id -> messages
    the messages at which the session can be forked [reads]
get_last_assistant_text: / session-id -> text
    what the model said last [repeatable reads]
resolve_dialog: dialog-id / result session-id -> accepted
    answer a dialog; `always` allows the same for the rest of this session [repeatable]
cancel_dialog: dialog-id / session-id -> accepted
    answer a dialog with no [repeatable]
query_eql: query / entity session-id -> result
    query attributes with EQL [reads]
bash: command / session-id -> output is-error details
    run a command whose output the model sees [beside own]
export_html: / path session-id -> path
    export the conversation as an HTML page [own]
get_commands: / session-id -> commands
    the slash commands [reads]
abort_bash: / session-id -> accepted dropped-steering-text
    end the command of `bash` [own]
login_begin: / provider session-id -> provider url uses-callback-server pending-login kind message
    where to get a provider's key
login_complete: / input session-id -> provider logged-in
    store the key
lend_key: variable key -> accepted
    send a key that `key/wanted` asked for
list_background_jobs: / statuses session-id -> jobs
    tool calls that are running or ran recently [reads]
inspect_background_job: job-id / session-id -> job
    one of these calls [reads]
cancel_background_job: job-id / session-id -> accepted job
    end one of these calls; the turn continues [own]
set_model: provider model-id / session-id -> model
    choose the model [own]
cycle_model: / direction session-id -> model
    switch to the next or previous model [own]
set_thinking_level: level / session-id -> thinking-level
    choose the thinking level [own]
cycle_thinking_level: / session-id -> thinking-level
    switch to the next thinking level [own]
get_available_models: / session-id -> models
    the models [repeatable reads]
set_mode: mode / session-id -> mode modes
    choose the mode of an agent that has modes [own]
set_option: option value / session-id -> options
    choose one of a session's options, as `get_view` lists them [own]
agents: -> agents
    third-party agents that can be hosted [repeatable reads]
agent_check: agent / cwd -> ok fault title version can modes models logins notices
    check whether an agent starts and can be used [beside]
remember: text / tags session-id -> id
    keep something in the memory of all sessions
recall: text / tags limit session-id -> entries
    search the memory of all sessions [reads]
command: text / session-id -> accepted handled fallback prompt-id
    run a slash command [own]
frontend_action_result: request-id action-name status / ui/action value error-message session-id \
-> accepted request-id
    answer a choice that a slash command asked for [own]
"""
"""Every op, in the order of `describe`: what it requires, after a slash what else it takes, after an arrow
the keys of its answer. Below that what it does, and which of `Op`'s flags hold."""


def _ops(table: str) -> dict[str, Op]:
    ops = {}
    lines = table.strip().split("\n")
    for head, does in zip(lines[::2], lines[1::2]):
        name, _, rest = head.partition(":")
        takes, _, answer = rest.partition(" -> ")
        required, _, optional = takes.partition("/ ")
        does, _, flags = does.strip().rstrip("]").partition(" [")
        first, more, keys = (tuple(words.split()) for words in (required, optional, answer))
        ops[name] = Op(first, more, keys, does, **dict.fromkeys(flags.split(), True))
    return ops


OPS: Mapping[str, Op] = MappingProxyType(_ops(_TABLE))

_TOPICS = """
session/updated session-id phase is-streaming is-compacting pending-message-count retry-attempt \
interrupt-pending
session/resumed session-id session-file message-count
session/rehydrated messages tool-calls tool-order session-id
session/prompted session-id entry-id text
session/turn-began session-id turn
session/turn-ended session-id turn outcome first-line last-line
session/retrying session-id attempt limit delay reason
context/updated active-session-id sessions
assistant/delta text session-id
assistant/thinking-delta text session-id
assistant/message role content session-id
tool/start tool-id tool-name session-id
tool/executing tool-id tool-name session-id
tool/delta tool-id session-id
tool/update tool-id tool-name content result-text is-error session-id
tool/result tool-id tool-name content result-text is-error session-id
ui/dialog-requested dialog-id kind title
ui/dialog-resolved dialog-id allowed by
ui/frontend-action-requested request-id ui/action
ui/widgets-updated widgets
ui/widget-specs-updated
ui/status-updated statuses
ui/notification id message level
footer/updated path-line stats-line session-id
command-result type
key/wanted variable
error error-code error-message
terminal/started name pid
terminal/exited name exit-code
terminal/title name title
terminal/bell name
terminal/notification name body
terminal/progress name state
terminal/recording name path recording
terminal/writer name writer
terminal/turn-began name turn
terminal/turn-ended name turn
verify/report session-id turn status confidence summary
verify/escalated session-id turn reason
verify/receipt session-id state
sessions/created session-id
sessions/opened session-id kind project
sessions/closed session-id
sessions/changed session-id
sessions/state session-id state question seen
sessions/prompt-started session-id prompt-id
sessions/prompt-ended session-id prompt-id outcome reason
sessions/said session-id text
sessions/turn-began session-id turn
sessions/turn-ended session-id turn outcome
sessions/failed session-id reason
sessions/correction session-id state reason
sessions/exited session-id exit-code
sessions/signalled session-id what
sessions/judged session-id turn confidence summary
sessions/needs-person session-id turn reason
sessions/questions token
hosts/state host state why
hosts/changed host
"""
TOPICS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {topic: tuple(keys) for topic, *keys in map(str.split, _TOPICS.strip().split("\n"))}
)
"""The topics of events, each with the keys that its data must have."""

OWN_TOPICS = frozenset(
    topic
    for topic in TOPICS
    if topic.startswith(("sessions/", "hosts/", "terminal/", "verify/", "session/turn-"))
    or topic in ("session/prompted", "session/retrying", "ui/dialog-resolved", "key/wanted")
)
"""Topics that psi does not know. Only clients that name them get them."""


def fault_in_target(params: Mapping[Any, Any]) -> str | None:
    """What is wrong with the session that a request names, whatever its op."""
    value = params.get(Keyword("session-id"))
    kind = PARAMS["session-id"]
    return (
        None
        if value is None or kind.holds(value)
        else f"invalid request parameter :session-id: {kind.wanted}"
    )


_OWN_WORDS = {
    ("subscribe", "topics"): "subscribe :topics must be sequential",
    ("unsubscribe", "topics"): "unsubscribe :topics must be sequential",
    ("prompt_while_streaming", "behavior"): 'prompt_while_streaming :behavior must be "steer" or "queue"',
}
"""What is said of some parameters instead of the usual."""


def fault_in_params(name: str, op: Op, params: Mapping[Any, Any]) -> str | None:
    """What is wrong with an op's parameters, in the protocol's words, or None. Others may come along."""
    for each in (*op.required, *op.optional):
        value = params.get(Keyword(each))
        if value is None and each not in op.required:
            continue
        kind = PARAMS[each]
        if value is None or not kind.holds(value):
            return _OWN_WORDS.get((name, each), f"invalid request parameter :{each}: {kind.wanted}")
    return None


@lru_cache
def argument(name: str) -> str:
    """How a handler calls a parameter: `from` is `from_`, `session-id` is `session_id`."""
    plain = name.replace("-", "_").replace("/", "_")
    return f"{plain}_" if iskeyword(plain) else plain


def arguments(op: Op, params: Mapping[Any, Any]) -> dict[str, Any]:
    """The parameters that are given, for the op's handler."""
    given = ((name, params.get(Keyword(name))) for name in (*op.required, *op.optional))
    return {argument(name): PARAMS[name].read(value) for name, value in given if value is not None}
