"""rpc-edn's turns: requests as text into a real `fairlead rpc`, and all frames that come out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import fields
from tests.agent.playing import calls, cassette, says
from tests.client.frontends import (
    DATA,
    EVENT,
    ID,
    OP,
    REQUIRED,
    SESSION_ID,
)
from tests.client.rpc_rows import (
    ABORT,
    ACCEPTED,
    ANSWERED,
    ASKED,
    DONE,
    ENTERED,
    HELD,
    NEW,
    PROMPT,
    S2,
    STEPPED,
    STOPPED,
    TURN,
    UI,
    Look,
    Row,
    Table,
    Wanted,
    delta,
    error,
    event,
    footer,
    message,
    of_s1,
    ok,
    phase,
    resumed,
    row,
    said,
    says_text,
    serving,
    shown,
    state,
    step,
    strings,
    told,
    usage,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with serving(tmp_path_factory.mktemp("rpc")) as table:
        yield table


# --- turns --------------------------------------------------------------------------------------------------

THOUGHT = [{"event": "thinking", "text": "hm"}, *says("ok")[1:]]
READ = [
    {"event": "call", "id": "c1", "name": "read"},
    {"event": "arguments", "id": "c1", "arguments": '{"path":'},
    {"event": "arguments", "id": "c1", "arguments": '"notes.txt"}'},
    {"event": "called", "id": "c1", "name": "read", "arguments": {"path": "notes.txt"}},
    {"event": "finished", "stop_reason": "toolUse", "usage": {"input": 10, "output": 5, "totalTokens": 15}},
]
READ_CALL = '{:type :tool-call :id "c1" :name "read" :arguments {:path "notes.txt"}}'
READ_ARGUMENTS = r'"{\"path\":\"notes.txt\"}"'
READ_RESULT = (
    r':content [{:type :text :text "buy milk\n"}] :is-error false :details {:path "/project/notes.txt"'
    " :first-line 1 :last-line 1 :size 9 :truncated false}"
)
REHYDRATE = (
    "[{:psi.agent-session/tool-lifecycle-summaries ["
    + " ".join(
        f":psi.tool-lifecycle.summary/{name}"
        for name in [
            "tool-id",
            "tool-name",
            "arguments",
            "parsed-args",
            "result-text",
            "is-error",
            "completed?",
        ]
    )
    + "]} :psi.turn/phase :psi.turn/is-streaming :psi.turn/text {:psi.turn/tool-calls [:id :name :arguments]}"
    " :psi.turn/tool-call-count]"
)
"""What psi's UI asks after each switch."""
READ_SUMMARY = (
    ':psi.tool-lifecycle.summary/tool-id "c1" :psi.tool-lifecycle.summary/tool-name "read"'
    f" :psi.tool-lifecycle.summary/arguments {READ_ARGUMENTS}"
    ' :psi.tool-lifecycle.summary/parsed-args {"path" "notes.txt"}'
    r' :psi.tool-lifecycle.summary/result-text "buy milk\n" :psi.tool-lifecycle.summary/is-error false'
    " :psi.tool-lifecycle.summary/completed? true"
)
READ_SUMMARY = f"{{{READ_SUMMARY}}}"
ODD = {"big": 10**20, "tiny": 1e-300, "odd key": [None, True], "1": {"é\x00": "\u2028"}, "": "\\"}
ODD_JSON = msgspec.json.encode(ODD).decode()
WRITE = calls(("c1", "write", {"path": "out.txt", "content": "hello\n"}))
WRITE_AGAIN = calls(("c2", "write", {"path": "out.txt", "content": "hello\n"}))
WRITE_CALL = r'{:type :tool-call :id "c1" :name "write" :arguments {:path "out.txt" :content "hello\n"}}'
WRITE_ARGUMENTS = r'"{\"path\":\"out.txt\",\"content\":\"hello\\n\"}"'
WRITING = (
    rf':tool-name "write" :arguments {WRITE_ARGUMENTS} :parsed-args {{"path" "out.txt" "content" "hello\n"}}'
)
CONSENT = ASKED._replace(used=ANSWERED.used, approvals=1)
DIALOG = (
    '{:dialog-id "#1" :kind "select" :title "Allow write?"'
    ' :options [{:value "allow" :label "Allow"} {:value "always" :label "Always allow this"}'
    ' {:value "deny" :label "Deny"}]'
    r' :message "session S1 in /project\nit changes a file\ncreate out.txt\nhello\nAllow write?"'
    ' :session-id "S1"'
    ' :session-name nil :project "/project" :tool-id "c1" :tool-name "write"'
    r' :summary "create out.txt" :reason "it changes a file" :preview "hello\n"}'
)
WANTS_CONSENT = step(
    "prompt",
    '{:message "hi"}',
    ACCEPTED,
    *told(ASKED),
    of_s1("tool/start", '{:tool-id "c1" :tool-name "write"}'),
    of_s1("tool/delta", f'{{:tool-id "c1" :arguments {WRITE_ARGUMENTS}}}'),
    event("ui/dialog-requested", DIALOG),
    *told(CONSENT),
    answers=[WRITE, says("done")],
)
DENIED = [
    of_s1(
        "tool/result",
        '{:tool-id "c1" :tool-name "write" :content [{:type :text :text "'
        'denied: no consent to write: create out.txt"}]'
        ' :result-text "denied: no consent to write: create out.txt" :is-error true :details {}}',
    ),
    footer(ANSWERED),
    delta("do"),
    delta("done"),
    message(says_text("#2", "done")),
    *told(STEPPED),
    *told(STEPPED._replace(phase="idle")),
]
DONE_BY_GUIDE = (
    r"Done: read `notes.txt`.\nbuy milk\n\nI am the offline guide: no language model is connected, so I only"
    r" follow plain requests. `help` lists them."
)


def guided(now: str, title: str = "read notes.txt") -> Wanted:
    return phase(title, now, model="guide", reasoning=False)


BUSY = Look(provider="busy", model="signal", reasoning=False, title="hi", phase="streaming", used="0.0%/1.0M")

PICTURE = (
    '{:id "#1" :role "user" :content [{:type :text :text "hi"} {:type :image :mime-type "image/png"}]'
    ' :text "hi"}'
)

TURN_TOPICS = (
    "session/prompted session/turn-began assistant/delta assistant/message session/turn-ended tool/start"
)


def turn(*, asked: bool) -> list[Wanted]:
    def told(topic: str, data: str) -> Wanted:
        return event(topic, edn.loads(data) | fields(session_id="S1"), asked=asked)

    return [
        told("session/prompted", '{:entry-id "#1" :text "hi" :prompt-id "P1"}'),
        told("session/turn-began", '{:turn 1 :first-line 2 :prompt-id "P1"}'),
        told("assistant/delta", '{:text "hello"}'),
        told("assistant/delta", '{:text "hello there"}'),
        told("assistant/message", says_text("#2", "hello there")),
        told("session/turn-ended", '{:turn 1 :outcome "done" :first-line 2 :last-line 3 :prompt-id "P1"}'),
    ]


TURNS = [
    row("prompt", PROMPT),
    row(
        "prompt-with-a-picture",
        step(
            "prompt",
            '{:message "hi" :images [{:data "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB" :mime-type "image/png"}]}',
            ACCEPTED,
            *told(ASKED._replace(used="0.1%/1.0M")),
            *TURN[3:],
            answers=[says("hello there")],
        ),
        step(
            "get_messages",
            "{:limit 1}",
            ok(f"{{:messages [{PICTURE.replace('#1', '#2')}] :total 2}}"),
        ),
    ),
    row(
        "prompt-that-is-thought-about",
        step(
            "prompt",
            '{:message "hi"}',
            ACCEPTED,
            *told(ASKED),
            of_s1("assistant/thinking-delta", '{:text "hm"}'),
            delta("k"),
            message(said("#1", '{:type :thinking :thinking "hm"} {:type :text :text "k"}', "k")),
            *told(ANSWERED),
            *told(DONE),
            answers=[THOUGHT],
        ),
    ),
    row(
        "prompt-with-a-tool",
        step(
            "prompt",
            '{:message "hi"}',
            ACCEPTED,
            *told(ASKED),
            of_s1("tool/start", '{:tool-id "c1" :tool-name "read"}'),
            of_s1("tool/delta", f'{{:tool-id "c1" :arguments {READ_ARGUMENTS}}}'),
            of_s1(
                "tool/executing",
                f'{{:tool-id "c1" :tool-name "read" :arguments {READ_ARGUMENTS}'
                ' :parsed-args {"path" "notes.txt"}}',
            ),
            of_s1(
                "tool/result",
                rf'{{:tool-id "c1" :tool-name "read" :result-text "buy milk\n" {READ_RESULT}}}',
            ),
            footer(ANSWERED),
            delta("do"),
            delta("done"),
            message(says_text("#1", "done")),
            *told(STEPPED),
            *told(STEPPED._replace(phase="idle")),
            answers=[READ, says("done")],
        ),
        step(
            "switch_session",
            '{:session-id "<S1>"}',
            *resumed(
                STEPPED._replace(phase="idle"),
                count=4,
                messages=(
                    '[{:id "#2" :role "user" :content [{:type :text :text "hi"}] :text "hi"}'
                    f"{says_text('#1', 'done')}]"
                ),
                tools=(
                    f':tool-calls {{"c1" {{:tool-id "c1" :tool-name "read" :arguments {READ_ARGUMENTS}'
                    rf' :result-text "buy milk\n" {READ_RESULT}}}}} :tool-order ["c1"]'
                ),
            ),
            ok('{:session-id "S1" :session-file "/sessions/S1.jsonl"}'),
            *told(STEPPED._replace(phase="idle")),  # which the UI has forgotten with the response
        ),
        step(
            "query_eql",
            f'{{:session-id "<S1>" :query "{REHYDRATE}"}}',
            ok(
                f"{{:result {{:psi.agent-session/tool-lifecycle-summaries [{READ_SUMMARY}]"
                " :psi.turn/phase nil :psi.turn/is-streaming false :psi.turn/text nil :psi.turn/tool-calls []"
                " :psi.turn/tool-call-count 0}}"
            ),
        ),
    ),
    row(
        "prompt-that-needs-consent-resolve_dialog",
        WANTS_CONSENT,
        step(
            "query_eql",
            '{:query "[:psi.ui/active-dialog]"}',
            ok(
                '{:result {:psi.ui/active-dialog {:dialog-id "#1" :session-id "S1" :title "create out.txt"}}}'
            ),
        ),
        step(
            "resolve_dialog",
            '{:dialog-id "no" :result true}',
            error("request/dialog-id-mismatch", "no dialog no is open"),
            event("ui/dialog-requested", DIALOG, asked=True),
        ),
        step(
            "cancel_dialog",
            '{:dialog-id "no"}',
            error("request/dialog-id-mismatch", "no dialog no is open"),
            event("ui/dialog-requested", DIALOG, asked=True),
        ),
        step(
            "resolve_dialog",
            '{:dialog-id "<#1>" :result true}',
            *told(CONSENT._replace(approvals=0)),
            ACCEPTED,
            of_s1(
                "tool/executing",
                f'{{:tool-id "c1" :tool-name "write" :arguments {WRITE_ARGUMENTS}'
                r' :parsed-args {"path" "out.txt" "content" "hello\n"}}',
            ),
            of_s1(
                "tool/result",
                '{:tool-id "c1" :tool-name "write" :result-text "out.txt: created, 1 line, 6 bytes."'
                ' :content [{:type :text :text "out.txt: created, 1 line, 6 bytes."}] :is-error false'
                r' :details {:path "/project/out.txt" :diff "@@ -0,0 +1 @@\n+hello"'
                " :first-changed-line 1 :added 1 :removed 0}}",
            ),
            *DENIED[1:],
        ),
    ),
    row(
        "prompt-that-needs-consent-resolve_dialog-with-a-no",
        WANTS_CONSENT,
        step(
            "resolve_dialog",
            '{:dialog-id "<#1>" :result false}',
            *told(CONSENT._replace(approvals=0)),
            ACCEPTED,
            *DENIED,
        ),
    ),
    row(
        "prompt-that-needs-consent-cancel_dialog",
        WANTS_CONSENT,
        step(
            "subscribe",
            "{}",
            *UI,
            event("ui/dialog-requested", DIALOG),
            *shown(CONSENT),
            ok(f"{{:subscribed {edn.dumps(sorted(REQUIRED))}}}"),
        ),
        step("cancel_dialog", '{:dialog-id "<#1>"}', *told(CONSENT._replace(approvals=0)), ACCEPTED, *DENIED),
    ),
    row(
        "prompt-that-fails",
        step(
            "prompt",
            '{:message "hi"}',
            ACCEPTED,
            *told(ASKED),
            message(said("#1", "", "", stop="error", used=usage(0, 0, 0), why="_")),
            *told(ASKED),
            *told(ASKED._replace(phase="idle")),
            answers=[[]],
        ),
        step("get_state", "{}", ok(state(ASKED._replace(phase="idle"), tokens=1))),
    ),
    row("steer-an-idle-session", PROMPT._replace(op="steer")),
    row("follow_up-an-idle-session", PROMPT._replace(op="follow_up")),
    *(
        row(
            f"{op}-with-a-picture",
            step(
                op,
                '{:message "hi" :images [{:data "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB" :mime-type "image/png"}]}',
                ACCEPTED,
                *(phase("hi", now) for now in ("streaming", "streaming", "idle")),
                answers=[says("hello there")],
            ),
            step("get_messages", "{:limit 1}", ok(f"{{:messages [{PICTURE}] :total 2}}")),
            topics="session/updated",
        )
        for op in ("steer", "follow_up")
    ),
    row(
        "prompt_while_streaming-an-idle-session",
        step(
            "prompt_while_streaming",
            '{:message "hi"}',
            ok('{:accepted true :behavior "steer"}'),
            *TURN,
            answers=[says("hello there")],
        ),
    ),
    row(
        "steer-prompt_while_streaming-interrupt-abort",
        HELD,
        step("steer", '{:message "left"}', *told(ASKED._replace(waiting=1)), ACCEPTED),
        step(
            "prompt_while_streaming",
            '{:message "right" :behavior :steer}',
            *told(ASKED._replace(waiting=2)),
            ok('{:accepted true :behavior "steer"}'),
        ),
        step(
            "query_eql",
            '{:query "[:psi.agent-session/steering-messages :psi.agent-session/follow-up-messages'
            ' :psi.agent-session/pending-message-count :psi.agent-session/is-idle]"}',
            ok(
                '{:result {:psi.agent-session/steering-messages ["left" "right"]'
                " :psi.agent-session/follow-up-messages []"
                " :psi.agent-session/pending-message-count 2 :psi.agent-session/is-idle false}}"
            ),
        ),
        step(
            "interrupt",
            "{}",
            *told(ASKED._replace(interrupting=True)),
            ok(r'{:accepted true :pending true :dropped-steering-text "left\nright"}'),
        ),
        step("interrupt", "{}", ok('{:accepted false :pending true :dropped-steering-text ""}')),
        step(
            "abort",
            "{}",
            ACCEPTED,
            STOPPED[0],
            *told(ASKED._replace(interrupting=True)),
            *told(ASKED._replace(phase="idle")),
        ),
    ),
    row(
        "interrupt-an-idle-session",
        step("interrupt", "{}", ok('{:accepted false :pending false :dropped-steering-text ""}')),
    ),
    row("abort-an-idle-session", step("abort", "{}", ACCEPTED)),
    row(
        "prompt-and-compact-while-a-turn-runs",
        HELD,
        step("prompt", '{:message "more"}', error("request/session-not-idle", "session is streaming")),
        step("compact", "{}", error("request/session-not-idle", "session is streaming")),
        step("bash", '{:command "true"}', error("request/session-not-idle", "session is streaming")),
        ABORT,
    ),
    row(
        "abort_retry",
        step(
            "set_model",
            '{:provider "busy" :model-id "signal"}',
            *told(BUSY._replace(title="(session S1)", phase="idle", used="?/1.0M")),
            ok('{:model {:provider "busy" :id "signal"}}'),
        ),
        step(
            "prompt",
            '{:message "hi"}',
            ACCEPTED,
            *told(BUSY),
            *told(BUSY._replace(phase="retrying", retry=1)),
        ),
        step(
            "abort_retry",
            "{}",
            ACCEPTED,
            message(said("#1", "", "", stop="aborted", used=usage(0, 0, 0), why="_")),
            *told(BUSY._replace(phase="retrying")),
            *told(BUSY._replace(phase="idle")),
        ),
    ),
    row("abort_retry-an-idle-session", step("abort_retry", "{}", ACCEPTED)),
    row(
        "prompt-the-guide",
        step(
            "set_model",
            '{:provider "offline" :model-id "guide"}',
            guided("idle", "(session S1)"),
            ok('{:model {:provider "offline" :id "guide"}}'),
        ),
        step(
            "prompt",
            '{:message "read notes.txt"}',
            ACCEPTED,
            guided("streaming"),
            of_s1("tool/start", '{:tool-id "G1" :tool-name "read"}'),
            of_s1(
                "tool/result",
                rf'{{:tool-id "G1" :tool-name "read" :result-text "buy milk\n" {READ_RESULT}}}',
            ),
            message(says_text("#1", DONE_BY_GUIDE, used="_")),
            guided("streaming"),
            guided("idle"),
        ),
        topics="session/updated assistant/message tool/start tool/result",
    ),
    row(
        "where-a-turn-begins-and-ends",
        step(
            "prompt",
            '{:message "hi"}',
            ACCEPTED,
            *turn(asked=False),
            answers=[says("hello there")],
        ),
        step(
            "subscribe",
            '{:since "<cursor of S1>"}',
            *(turn(asked=True)[at] for at in (1, 4, 5)),  # without what the message says
            ok(f"{{:subscribed {strings(' '.join(sorted(TURN_TOPICS.split())))} :cursor _ :replayed 3}}"),
        ),
        topics=TURN_TOPICS,
    ),
    row(
        "arguments-of-every-kind",
        step(
            "prompt",
            '{:message "hi"}',
            ACCEPTED,
            of_s1("tool/delta", f'{{:tool-id "c1" :arguments {edn.dumps(ODD_JSON)}}}'),
            message(said("#1", "", "")),
            of_s1(
                "session/turn-ended", '{:turn 1 :outcome "done" :first-line 2 :last-line 5 :prompt-id "P1"}'
            ),
            answers=[calls(("c1", "nothing", ODD)), says("")],
        ),
        topics="assistant/message session/turn-ended tool/delta",
    ),
    row(
        "consent-that-lasts",
        WANTS_CONSENT._replace(
            wanted=(ACCEPTED, event("ui/dialog-requested", DIALOG)),
            answers=[WRITE, WRITE_AGAIN, says("done")],
        ),
        step(
            "resolve_dialog",
            '{:dialog-id "<#1>" :result "always"}',
            of_s1("ui/dialog-resolved", '{:dialog-id "#1" :allowed true :by "table"}'),
            ACCEPTED,
            of_s1("tool/executing", f'{{:tool-id "c1" {WRITING}}}'),
            of_s1("tool/executing", f'{{:tool-id "c2" {WRITING}}}'),
            of_s1(
                "session/turn-ended", '{:turn 1 :outcome "done" :first-line 2 :last-line 9 :prompt-id "P1"}'
            ),
        ),
        topics="ui/dialog-requested ui/dialog-resolved tool/executing session/turn-ended",
    ),
    row(
        "where-a-dialog-ends",
        step(
            "prompt",
            '{:message "hi"}',
            ACCEPTED,
            event("ui/dialog-requested", DIALOG),
            answers=[WRITE, says("done")],
        ),
        step(
            "resolve_dialog",
            '{:dialog-id "<#1>" :result "no"}',
            of_s1("ui/dialog-resolved", '{:dialog-id "#1" :allowed false :by "table"}'),
            ACCEPTED,
            of_s1(
                "session/turn-ended", '{:turn 1 :outcome "done" :first-line 2 :last-line 7 :prompt-id "P1"}'
            ),
        ),
        topics="ui/dialog-requested ui/dialog-resolved session/turn-ended",
    ),
]


@pytest.mark.parametrize("row", TURNS)
def test_a_turn_is_told_by_these_frames(table: Table, row: Row) -> None:
    table.play(row)


# --- two at once --------------------------------------------------------------------------------------------


def slowly(letter: str) -> list[dict[str, Any]]:
    """Ten pieces, a hundredth of a second apart but for the last."""
    pieces = [{"event": "text", "text": f"{letter}{at}", "at": at / 100} for at in range(10)]
    pieces[-1]["at"] = 0.5
    return [*pieces, {"event": "finished", "at": 0.5, "stop_reason": "stop", "usage": {}}]


def test_two_sessions_stream_at_once_and_a_ping_is_answered_in_between(table: Table) -> None:
    names = table.begin()
    table.play_step(names, step("new_session", "{}", *resumed(S2, NEW, S2), ENTERED), "new")
    front = table.front
    cassette(table.tape, slowly("x"), slowly("y"))

    def prompt(id: str, session: str) -> str:
        asked = f'{{:message "hi" :session-id "<{session}>"}}'
        return names.real(f'{{:id "{id}" :kind :request :op "prompt" :params {asked}}}')

    def until_idle(frames: list[Any], count: int) -> None:
        while count:
            frames.append(names.shown(front.next()))
            count -= frames[-1].get(DATA, {}).get(Keyword("phase")) == "idle"

    front.write(prompt("first", "S2"))  # then S2 plays the second answer when S1 plays the first
    until_idle([], 1)
    front.write(prompt("one", "S1") + "\n" + prompt("two", "S2"))
    frames: list[Any] = []
    while not any(frame.get(EVENT) == "assistant/delta" for frame in frames):
        frames.append(names.shown(front.next()))
    front.write('{:id "between" :kind :request :op "ping"}')
    until_idle(frames, 2)

    answers = [frame for frame in frames if EVENT not in frame]
    assert [(frame[ID], frame[OP]) for frame in answers] == [
        ("one", "prompt"),
        ("two", "prompt"),
        ("between", "ping"),
    ]
    assert frames.index(answers[2]) < max(
        at for at, frame in enumerate(frames) if frame.get(EVENT) == "assistant/delta"
    )
    deltas = [frame[DATA] for frame in frames if frame.get(EVENT) == "assistant/delta"]
    texts = {
        session: [data[Keyword("text")] for data in deltas if data[SESSION_ID] == session]
        for session in ("S1", "S2")
    }
    whole = {"S1": "".join(f"x{at}" for at in range(10)), "S2": "".join(f"y{at}" for at in range(10))}
    for session, pieces in texts.items():  # each is all so far, and not every piece is told
        assert all(two.startswith(one) and one != two for one, two in pairwise(pieces)), pieces
        assert pieces[-1] == whole[session]
    order = [data[SESSION_ID] for data in deltas]
    assert sum(one != two for one, two in pairwise(order)) > 2, order
    said = {
        frame[DATA][SESSION_ID]: frame[DATA][Keyword("text")]
        for frame in frames
        if frame.get(EVENT) == "assistant/message"
    }
    assert said == whole
