"""rpc-edn's sessions, models and views: requests as text, and all frames that come out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.agent.models import THINKING_LEVELS
from fairlead.agent.models.catalog import BUILT_IN
from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import fields
from tests.agent.playing import says
from tests.client.frontends import (
    DATA,
    ID,
    REQUIRED,
    SESSION_ID,
    Frontend,
)
from tests.client.rpc_rows import (
    ACCEPTED,
    DONE,
    ENTERED,
    GUIDE,
    HANDLED,
    NEW,
    NO_KEY,
    PROMPT,
    S2,
    SAID,
    USER,
    Look,
    Row,
    Step,
    Table,
    Wanted,
    command,
    error,
    event,
    footer,
    listed,
    of_s1,
    ok,
    phase,
    result,
    resumed,
    row,
    says_text,
    serving,
    shown,
    state,
    step,
    told,
    usage,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with serving(tmp_path_factory.mktemp("rpc")) as table:
        yield table


# --- sessions -----------------------------------------------------------------------------------------------


def opened(session: str, is_new: str) -> Wanted:
    return ok(
        f'{{:session-id "{session}" :session-file "/sessions/{session}.jsonl" :created {is_new} :cursor _}}'
    )


FORKED = DONE._replace(id="S2", parent="S1")
LISTED = ':session-name nil :worktree-path "/project" :created-at "now" :updated-at "now"'
NAMED = told(Look(name="garden", title="garden"), S2, Look(name="garden", title="garden"), active="S2")

SESSIONS = [
    row("new_session", step("new_session", "{}", *resumed(S2, NEW, S2), ENTERED)),
    row(
        "new_session-with-a-parent",
        step(
            "new_session",
            '{:parent-session "<S1>"}',
            *resumed(S2._replace(parent="S1"), NEW, S2._replace(parent="S1")),
            ENTERED,
        ),
    ),
    row(
        "new_session-with-no-such-parent",
        step(
            "new_session",
            '{:parent-session "no"}',
            error("request/not-found", "Session not found in context: no"),
        ),
    ),
    row(
        "switch_session-by-its-id",
        PROMPT,
        step("new_session", "{}", *resumed(S2, DONE, S2), ENTERED),
        step(
            "switch_session",
            '{:session-id "<S1>"}',
            *resumed(DONE, DONE, S2, count=2, messages=SAID),
            ok('{:session-id "S1" :session-file "/sessions/S1.jsonl"}'),
            *told(DONE, DONE, S2),
        ),
        step("get_last_assistant_text", "{}", ok('{:text "hello there"}')),
        step("get_last_assistant_text", '{:session-id "<S2>"}', ok("{:text nil}")),
    ),
    row(
        "switch_session-by-its-file",
        step("new_session", "{}", *resumed(S2, NEW, S2), ENTERED),
        step(
            "switch_session",
            '{:session-path "<file of S1>"}',
            *resumed(NEW, NEW, S2),
            ok('{:session-id "S1" :session-file "/sessions/S1.jsonl"}'),
            *told(NEW, NEW, S2),
        ),
    ),
    row(
        "fork",
        PROMPT,
        step("get_fork_messages", "{}", ok('{:messages [{:entry-id "#2" :text "hi"}]}')),
        step(
            "fork",
            '{:entry-id "<#2>"}',  # with its answer
            *resumed(FORKED, DONE, FORKED, count=2, messages=SAID),
            ENTERED,
        ),
    ),
    row(
        "fork-after-a-turn",
        PROMPT,
        step(
            "fork",
            '{:session-id "<S1>" :entry-id "<#1>"}',
            *resumed(FORKED, DONE, FORKED, count=2, messages=SAID),
            ENTERED,
        ),
    ),
    row(
        "list_sessions",
        step("new_session", '{:parent-session "<S1>"}', ENTERED),
        step(
            "list_sessions",
            "{}",
            ok(
                '{:active-session-id "S2" :sessions ['
                '{:session-id "S1" :session-file "/sessions/S1.jsonl" :display-name "(session S1)"'
                f" :parent-session-id nil :parent-session-path nil {LISTED}}}"
                '{:session-id "S2" :session-file "/sessions/S2.jsonl" :display-name "(session S2)"'
                f' :parent-session-id "S1" :parent-session-path "/sessions/S1.jsonl" {LISTED}}}]}}'
            ),
        ),
        topics="command-result",
    ),
    row(
        "open_session",
        step("open_session", '{:name "garden"}', opened("S2", "true")),
        step("open_session", '{:name "garden"}', opened("S2", "false")),
        step("open_session", "{:continue true}", opened("S2", "false")),
        step("open_session", '{:name "<S1>"}', opened("S1", "false")),
        step("open_session", "{}", opened("S3", "true")),
        topics="command-result",
    ),
    row(
        "set_session_name",
        step(
            "set_session_name",
            '{:name "garden"}',
            *told(Look(name="garden", title="garden")),
            ok('{:session-name "garden"}'),
        ),
    ),
    row(
        "the-session-that-is-named-is-meant",
        step("new_session", "{}", *resumed(S2, NEW, S2), ENTERED),
        step(
            "set_session_name",
            '{:name "garden" :session-id "<S1>"}',
            *NAMED[:2],
            footer(S2),  # it has lines about the other sessions
            *NAMED[2:],
            ok('{:session-name "garden"}'),
        ),
    ),
]


@pytest.mark.parametrize("row", SESSIONS)
def test_sessions_are_made_and_found_with_these_frames(table: Table, row: Row) -> None:
    table.play(row)


# --- models and settings ------------------------------------------------------------------------------------


def level(given: str, now: str) -> Step:
    return step(
        "set_thinking_level",
        f"{{:level {given}}}",
        *told(Look(level=now)),
        ok(f'{{:thinking-level "{now}"}}'),
    )


SOL = Look(provider="openai", model="gpt-6.1-sol", used="?/1.1M")
TO_SOL = ok('{:model {:provider "openai" :id "gpt-6.1-sol"}}')
TO_GUIDE = ok('{:model {:provider "offline" :id "guide"}}')

SETTINGS = [
    row("set_model", step("set_model", '{:provider "offline" :model-id "guide"}', *told(GUIDE), TO_GUIDE)),
    row(
        "set_model-unknown",
        step(
            "set_model",
            '{:provider "no" :model-id "such"}',
            error("request/unknown-model", "unknown model"),
        ),
    ),
    row("cycle_model", step("cycle_model", "{}", *told(SOL), TO_SOL)),
    row("cycle_model-next", step("cycle_model", '{:direction "next"}', *told(SOL), TO_SOL)),
    row("cycle_model-prev", step("cycle_model", '{:direction "prev"}', *told(GUIDE), TO_GUIDE)),
    row("set_thinking_level-string", level('"low"', "low")),
    row("set_thinking_level-keyword", level(":xhigh", "xhigh")),
    row("set_thinking_level-integer", level("3", "medium")),
    row(
        "set_thinking_level-unknown",
        step(
            "set_thinking_level",
            '{:level "x"}',
            error(
                "request/invalid-params",
                "Unknown thinking level: x. Allowed: off, minimal, low, medium, high, xhigh",
            ),
        ),
    ),
    row(
        "set_thinking_level-too-far",
        step(
            "set_thinking_level",
            "{:level 6}",
            error("request/invalid-params", "invalid request parameter :level: 0 to 5"),
        ),
    ),
    row(
        "cycle_thinking_level",
        *(
            step("cycle_thinking_level", "{}", *told(Look(level=now)), ok(f'{{:thinking-level "{now}"}}'))
            for now in (*THINKING_LEVELS[1:], "off")
        ),
    ),
    row(
        "a-model-that-does-not-reason-does-not-think",
        level(":high", "high"),
        step(
            "set_model",
            '{:provider "offline" :model-id "guide"}',
            *told(GUIDE._replace(level="high")),
            TO_GUIDE,
        ),
    ),
    row(
        "set_auto_retry",
        step("set_auto_retry", "{:enabled false}", *told(NEW), ok("{:enabled false}")),
        step("get_state", "{}", ok(state(NEW, auto_retry_enabled=False))),
    ),
    row(
        "set_auto_compaction",
        step(
            "set_auto_compaction",
            "{:enabled true}",
            *told(NEW._replace(used="?/1.0M (auto)")),
            ok("{:enabled true}"),
        ),
        step("get_state", "{}", ok(state(NEW, auto_compaction_enabled=True))),
    ),
    row(
        "get_available_models",
        step(
            "get_available_models",
            "{}",
            ok(
                edn.dumps(
                    fields(
                        models=[
                            fields(
                                provider=info.provider,
                                id=info.id,
                                name=info.name,
                                reasoning=info.reasoning,
                                context_window=info.window,
                                max_output_tokens=info.max_output,
                            )
                            for info in BUILT_IN
                        ]
                        + [
                            fields(
                                provider="busy",
                                id="signal",
                                name="Engaged",
                                reasoning=False,
                                context_window=1_000_000,
                                max_output_tokens=0,
                            )
                        ]
                    )
                )
            ),
        ),
    ),
]


@pytest.mark.parametrize("row", SETTINGS)
def test_models_and_settings_are_chosen_with_these_frames(table: Table, row: Row) -> None:
    table.play(row)


# --- looking ------------------------------------------------------------------------------------------------

STATS = (
    ':phase "idle" :is-idle true :is-streaming false :is-compacting false :is-retrying false'
    ' :model {:provider "offline" :id "replay"} :thinking-level "off" :pending-messages 0 :retry-attempt 0'
    " :auto-retry-enabled true :auto-compaction-enabled false :context-fraction 1.5e-5 :journal-entries 2"
    ' :session-id "S1" :session-file "/sessions/S1.jsonl" :user-messages 1 :assistant-messages 1'
    f" :tool-calls 0 :tool-results 0 :total-messages 2 :usage {usage()}"
)
LONG = "x" * 90_000
LONG_TITLE = "x" * 47 + "…"
LONG_TURN = [phase(LONG_TITLE, now) for now in ("streaming", "streaming", "idle")]


def runs(command: str) -> Wanted:
    """A command of a person begins."""
    return of_s1(
        "tool/executing",
        rf'{{:tool-id "bash-#1" :tool-name "bash" :arguments "{{\"command\":\"{command}\"}}"'
        f' :parsed-args {{"command" "{command}"}}}}',
    )


SLEEP = step(
    "bash",
    '{:command "sleep 60"}',
    *told(NEW._replace(phase="streaming")),
    runs("sleep 60"),
    event("terminal/started", "{:name _ :pid _ :command _}"),
    is_answered=False,
)
RUNS = NEW._replace(phase="streaming")
RAN = NEW._replace(used="0.0%/1.0M")
JOB = "  bash-#1  [running]  bash"
WITH_TERMINALS = " ".join([*REQUIRED, "terminal/started"])

LOGIN = ok(
    '{:provider {:id "openai" :name "openai"} :url "https://platform.openai.com/api-keys"'
    ' :uses-callback-server false :pending-login true :kind "api-key" :message _}'
)

LOOKING = [
    row("ping", step("ping", "{}", ok('{:pong true :protocol-version "1.0"}'))),
    row(
        "handshake-again",
        step(
            "handshake",
            '{:protocol-version "1.7"}',
            ok(
                '{:server-info {:protocol-version "1.0" :features ["eql-graph" "eql-memory"] :session-id "S1"'
                ' :model-id "replay" :thinking-level "off"}}'
            ),
        ),
    ),
    row("get_state", step("get_state", "{}", ok(state(NEW)))),
    row("get_messages-of-a-new-session", step("get_messages", "{}", ok("{:messages [] :total 0}"))),
    row(
        "get_messages",
        PROMPT,
        step(
            "get_messages",
            "{}",
            ok(f"{{:messages [{USER}{says_text('#1', 'hello there')}] :total 2}}"),
        ),
        step("get_messages", "{:from 1}", ok(f"{{:messages [{says_text('#1', 'hello there')}] :total 2}}")),
        step("get_messages", "{:from 5}", ok("{:messages [] :total 2}")),
    ),
    row("get_session_stats", PROMPT, step("get_session_stats", "{}", ok(f"{{:stats {{{STATS}}}}}"))),
    row(
        "get_last_assistant_text", PROMPT, step("get_last_assistant_text", "{}", ok('{:text "hello there"}'))
    ),
    row("get_last_assistant_text-of-a-new-session", step("get_last_assistant_text", "{}", ok("{:text nil}"))),
    row("get_fork_messages-of-a-new-session", step("get_fork_messages", "{}", ok("{:messages []}"))),
    row("export_html", PROMPT, step("export_html", "{}", ok('{:path "/sessions/S1.html"}'))),
    row(
        "export_html-to-a-path",
        step("export_html", '{:path "out.txt"}', ok('{:path "/project/out.txt"}')),
        step(
            "export_html",
            '{:path "out.txt"}',
            error("runtime/failed", "can't write /project/out.txt: File exists"),
        ),
    ),
    row(
        "bash",
        step(
            "bash",
            '{:command "exit 4"}',
            *told(NEW._replace(phase="streaming")),
            runs("exit 4"),
            *told(RAN),
            ok(
                r'{:output "[No output.]\n[Exit code 4.]" :is-error true'
                " :details {:exit-code 4 :truncated false}}"
            ),
        ),
    ),
    row(
        "cancel",
        SLEEP,
        step("cancel", '{:request-id "no"}', ok("{:accepted false}")),
        step(
            "cancel",
            '{:request-id "r1"}',
            ACCEPTED,
            *told(RAN),
            ok("{:output _ :is-error true :details _}", id="r1", op="bash"),
        ),
        topics=WITH_TERMINALS,
    ),
    row(
        "jobs-that-run",
        SLEEP,
        command("/jobs", result("text", listed("Background jobs", JOB)), after=RUNS),
        command("/jobs failed", result("text", listed("Background jobs", "  (none)")), after=RUNS),
        command("/jobs lost", result("text", "Usage: /jobs [status ...]"), after=RUNS),
        command(
            "/job bash-<#1>",
            result("text", listed("Background job", JOB, "  $ sleep 60", "  for some s")),
            after=RUNS,
        ),
        command("/job no", result("text", "Job not found: no. Running: bash-#1"), after=RUNS),
        command("/job", result("text", "Usage: /job <job-id>"), after=RUNS),
        step(
            "command",
            '{:text "/cancel-job bash-<#1>"}',
            result("text", "Cancellation requested for bash-#1 (status=pending-cancel)"),
            *shown(RUNS)[:2],
            HANDLED,
            *told(RAN),
            ok("{:output _ :is-error true :details _}", id="r1", op="bash"),
        ),
        topics=WITH_TERMINALS,
    ),
    row(
        "abort_bash",
        SLEEP,
        step("prompt", '{:message "hi"}', error("request/session-not-idle", "session is streaming")),
        step(
            "abort_bash",
            "{}",
            ACCEPTED,
            *told(RAN),
            ok("{:output _ :is-error true :details _}", id="r1", op="bash"),
        ),
        topics=WITH_TERMINALS,
    ),
    row("abort_bash-of-an-idle-session", step("abort_bash", "{}", ACCEPTED)),
    row(
        "login_begin-login_complete",
        step("login_begin", '{:provider "openai"}', LOGIN),
        step(
            "login_complete",
            '{:input " "}',
            error(
                "request/invalid-params",
                "invalid request parameter :input: a key is one word of ASCII characters",
            ),
        ),
        step(
            "login_complete",
            '{:input "sk-1"}',
            ok('{:provider {:id "openai" :name "openai"} :logged-in true}'),
        ),
        step("login_complete", '{:input "sk-1"}', error("request/no-pending-login", "no login in progress")),
        step(
            "query_eql",
            '{:query "[:psi.agent-session/authenticated-providers]"}',
            ok('{:result {:psi.agent-session/authenticated-providers ["offline" "openai" "busy"]}}'),
        ),
        step(
            "command",
            '{:text "/logout openai"}',
            event(
                "command-result",
                '{:type "logout" :message "✓ Logged out of: openai" :session-id "S1"}',
                asked=True,
            ),
            *shown(NEW)[:2],
            HANDLED,
        ),
    ),
    row(
        "login_begin-where-no-key-is-wanted",
        step("login_begin", "{}", error("request/invalid-params", NO_KEY)),
    ),
    row("remember", step("remember", '{:text "the roses like coffee" :tags ["garden"]}', ok("{:id _}"))),
    row(
        "recall",
        step("remember", '{:text "tulips come in March" :tags ["spring"]}', ok("{:id _}")),
        step(
            "recall",
            '{:text "tulips" :tags ["spring"] :limit 1}',
            ok(
                '{:entries [{:id _ :text "tulips come in March" :tags ["spring"] :kind "note"'
                ' :session-id "S1" :created "now"}]}'
            ),
        ),
    ),
    row(
        "compact-nothing",
        step(
            "compact",
            "{}",
            *told(NEW._replace(phase="streaming")),
            *told(NEW),
            error("runtime/failed", "there is nothing to compact yet"),
        ),
    ),
    row(
        "compact",
        step("prompt", f'{{:message "{LONG}"}}', ACCEPTED, *LONG_TURN, answers=[says("one"), says("two")]),
        step("prompt", f'{{:message "{LONG}"}}', ACCEPTED, *LONG_TURN),
        step(
            "compact",
            '{:custom-instructions "in one line"}',
            phase(LONG_TITLE, "streaming"),
            phase(LONG_TITLE, "compacting"),
            phase(LONG_TITLE, "compacting"),
            phase(LONG_TITLE, "streaming"),
            phase(LONG_TITLE, "idle"),
            ok('{:compacted true :summary "all was x"}'),
            answers=[says("all was x")],
        ),
        topics="session/updated",
    ),
]


@pytest.mark.parametrize("row", LOOKING)
def test_what_there_is_can_be_seen_with_these_frames(table: Table, row: Row) -> None:
    table.play(row)


def test_a_client_gets_the_last_session_of_its_directory(table: Table) -> None:
    table.begin()
    rows = table.front.ask("list_sessions")[DATA][Keyword("sessions")]
    other = Frontend(table.hosting, table.front.directory)
    try:
        other.handshake()
        state = other.ask("get_state")[DATA][Keyword("state")]
        assert state[SESSION_ID] == rows[-1][SESSION_ID]
        assert other.close() == 0
    finally:
        other.end()


def test_a_command_that_is_aborted_before_it_has_begun_is_ended(table: Table) -> None:
    table.begin("error")
    front = table.front
    front.write(
        '{:id "run" :kind :request :op "bash" :params {:command "sleep 60"}}\n'
        '{:id "end" :kind :request :op "abort_bash"}'
    )
    answers = {frame[ID]: frame[DATA] for frame in (front.next(), front.next())}
    assert answers["end"] == fields(accepted=True)
    assert answers["run"][Keyword("is-error")] is True
