"""rpc-edn's queries, slash commands and subscriptions: requests as text, and all frames that come out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.agent.models import THINKING_LEVELS
from fairlead.agent.models.catalog import BUILT_IN
from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire.rpc import fields
from tests.client.frontends import (
    REQUIRED,
)
from tests.client.rpc_rows import (
    ACCEPTED,
    ASKED,
    ENTERED,
    GUIDE,
    NEW,
    NO_KEY,
    PROMPT,
    S2,
    Look,
    Row,
    Step,
    Table,
    Wanted,
    command,
    error,
    event,
    ok,
    result,
    resumed,
    row,
    serving,
    shown,
    state,
    step,
    told,
)

COMMANDS = """
    /help /status /history /new /resume /tree /model /thinking /compact /prompts /skills /remember /jobs
    /job /cancel-job /login /logout /quit
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with serving(tmp_path_factory.mktemp("rpc")) as table:
        yield table


# --- queries ------------------------------------------------------------------------------------------------


def query(text: str, result: str, more: str = "") -> Step:
    return step("query_eql", f"{{:query {edn.dumps(text)} {more}}}", ok(f"{{:result {result}}}"))


def refused(query: str, code: str, why: str, more: str = "") -> Step:
    return step("query_eql", f"{{:query {edn.dumps(query)} {more}}}", error(code, why))


CATALOG = [
    fields(provider=provider, id=id, name=name, reasoning=reasoning)
    for provider, id, name, reasoning in (
        *((info.provider, info.id, info.name, info.reasoning) for info in BUILT_IN),
        ("busy", "signal", "Engaged", False),
    )
]
INFO = (
    '{:psi.session-info/path "/sessions/S1.jsonl" :psi.session-info/name nil'
    ' :psi.session-info/worktree-path "/project" :psi.session-info/first-message "hi"'
    ' :psi.session-info/modified "now"}'
)
INFOS = (
    "[:psi.session-info/path :psi.session-info/name :psi.session-info/worktree-path"
    " :psi.session-info/first-message :psi.session-info/modified]"
)
OF_SESSION = """
    session-id "S1" file "/sessions/S1.jsonl" name nil display-name "hi" phase "idle" is-idle true
    is-streaming false is-compacting false model-provider "offline" model-id "replay" model-reasoning true
    thinking-level "off" effective-reasoning-effort "off" context-tokens 15 context-window 1000000
    context-fraction 1.5e-5 usage-input 10 usage-output 5 usage-cache-read 0 usage-cache-write 0
    usage-cost-total 0.0 worktree-path "/project" git-branch nil steering-messages [] follow-up-messages []
    pending-message-count 0 retry-attempt 0 auto-retry-enabled true auto-compaction-enabled false
    scoped-models [] model {:provider "offline" :id "replay" :name "Replay of a cassette" :reasoning true}
    message-history [{:id "#2" :role "user" :text "hi"} {:id "#1" :role "assistant" :text "hello there"}]
    context-sessions [{:id "S1" :display-name "hi" :phase "idle"}]
    stats {:user-messages 1 :assistant-messages 1 :tool-calls 0 :tool-results 0 :total-tokens 15 :cost 0.0}
"""
_ATTRIBUTES = edn.loads(f"[{OF_SESSION}]")
NAMES = [f":psi.agent-session/{name}" for name in _ATTRIBUTES[::2]]
VALUES = " ".join(f"{name} {edn.dumps(value)}" for name, value in zip(NAMES, _ATTRIBUTES[1::2]))
GRAPH = """
    resolver-count mutation-count resolver-syms nodes edges capabilities root-queryable-attrs attr-index
"""
ENTRY = (
    '{:psi.memory.entry/id _ :psi.memory.entry/text "figs in August" :psi.memory.entry/tags ["fruit"]'
    ' :psi.memory.entry/kind "note" :psi.memory.entry/session-id "S1" :psi.memory.entry/created-at "now"}'
)
FAILED = "runtime/query-failed"

QUERIES = [
    row(
        "completion",
        query(
            "[:psi.extension/command-names :psi.agent-session/prompt-templates]",
            "{:psi.extension/command-names [] :psi.agent-session/prompt-templates []}",
        ),
    ),
    row(
        "models",
        query(
            "[:psi.agent-session/model-catalog :psi.agent-session/authenticated-providers]",
            f"{{:psi.agent-session/model-catalog {edn.dumps(CATALOG)}"
            ' :psi.agent-session/authenticated-providers ["offline" "busy"]}',
        ),
    ),
    row("sessions", PROMPT, query(f"[{{:psi.session/list {INFOS}}}]", f"{{:psi.session/list [{INFO}]}}")),
    row(
        "persisted-sessions",
        PROMPT,
        query(f"[{{:psi.persisted-session/list {INFOS}}}]", f"{{:psi.persisted-session/list [{INFO}]}}"),
    ),
    row(
        "tools-of-a-new-session",
        query(
            "[{:psi.agent-session/tool-lifecycle-summaries [:tool-id]}]",
            "{:psi.agent-session/tool-lifecycle-summaries []}",
        ),
    ),
    row("widget-specs", query("[:psi.ui/widget-specs]", "{:psi.ui/widget-specs []}")),
    row(
        "ui",
        query(
            "[:psi.ui/widgets :psi.ui/statuses :psi.ui/active-dialog :psi.ui/visible-notifications]",
            "{:psi.ui/widgets [] :psi.ui/statuses [] :psi.ui/active-dialog nil"
            " :psi.ui/visible-notifications []}",
        ),
    ),
    row("session", PROMPT, query(f"[{' '.join(NAMES)}]", f"{{{VALUES}}}")),
    row(
        "graph",
        query(
            f"[{' '.join(f':psi.graph/{name}' for name in GRAPH.split())}]",
            f"{{{' '.join(f':psi.graph/{name} _' for name in GRAPH.split())}}}",
        ),
    ),
    row(
        "memory",
        step("remember", '{:text "figs in August" :tags ["fruit"]}', ok("{:id _}")),
        query(
            "[:psi.memory/status :psi.memory/entry-count :psi.memory/entries :psi.memory/recent-entries"
            " :psi.memory/index-stats]",
            f"{{:psi.memory/status :ready :psi.memory/entry-count _ :psi.memory/entries [{ENTRY}]"
            f" :psi.memory/recent-entries [{ENTRY}] :psi.memory/index-stats _}}",
        ),
        query('[(:psi.memory/search-results {:text "figs"})]', f"{{:psi.memory/search-results [{ENTRY}]}}"),
        query('[(:psi.memory/by-tag {:tags ["fruit"]})]', f'{{:psi.memory/by-tag {{"fruit" [{ENTRY}]}}}}'),
    ),
    row(
        "ident",
        query(
            '[{[:psi.agent-session/session-id "<S1>"] [:psi.agent-session/phase]}]',
            '{[:psi.agent-session/session-id "S1"] {:psi.agent-session/phase "idle"}}',
        ),
    ),
    row(
        "entity",
        step("new_session", "{}", *resumed(S2, NEW, S2), ENTERED),
        query(
            "[:psi.agent-session/session-id]",
            '{:psi.agent-session/session-id "S1"}',
            r':entity "{:psi.agent-session/session-id \"<S1>\"}"',
        ),
        query(
            "[:psi.agent-session/session-id]",
            '{:psi.agent-session/session-id "S1"}',
            ':session-id "<S1>"',
        ),
        query("[:psi.agent-session/session-id]", '{:psi.agent-session/session-id "S2"}'),
    ),
    row("empty", query("[]", "{}")),
    row("not-edn", refused("[:a", "request/invalid-query", "query must be valid EDN")),
    row("not-a-vector", refused("{}", "request/invalid-query", "query must be an EDN vector")),
    row("two-forms", refused("[] []", "request/invalid-query", "query must be valid EDN")),
    row("unknown", refused("[:psi.no/such]", FAILED, "unknown attribute :psi.no/such")),
    row(
        "unknown-in-a-join",
        refused("[{:psi.session/list [:psi.no/such]}]", FAILED, "unknown attribute :psi.no/such"),
    ),
    row(
        "no-such-session",
        step(
            "query_eql",
            '{:query "[]" :session-id "no"}',
            error("request/not-found", "Session not found in context: no"),
        ),
    ),
]


@pytest.mark.parametrize("row", QUERIES)
def test_a_query_is_answered_by_these_frames(table: Table, row: Row) -> None:
    table.play(row)


# --- commands -----------------------------------------------------------------------------------------------


def action(id: str, name: str, prompt: str, items: list[tuple[str, str, str]]) -> Wanted:
    """A choice that the editor is asked for."""
    shown = " ".join(
        f'{{:ui.item/id "{item}" :ui.item/label "{label}" :ui.item/value {value}}}'
        for item, label, value in items
    )
    return event(
        "ui/frontend-action-requested",
        f'{{:request-id "{id}" :prompt "{prompt}" :ui/action {{:action-id "{id}" :action-kind :select'
        f' :action-name "{name}" :prompt "{prompt}" :items [{shown}]}}}}',
        asked=True,
    )


def chosen(name: str, value: str, *wanted: Wanted) -> Step:
    return step(
        "frontend_action_result",
        f'{{:request-id "<A1>" :action-name "{name}" :status "submitted" :value {value}}}',
        *wanted,
        ACCEPTED,
    )


SWITCHED = result("session_switch", "Switched to session S1")
MODEL_ITEMS = [
    (f"{provider}/{id}", f"{name} ({provider})", f'["{provider}" "{id}"]')
    for provider, id, name in (
        *((info.provider, info.id, info.name) for info in BUILT_IN),
        ("busy", "signal", "Engaged"),
    )
]
LEVELS = "off, minimal, low, medium, high, xhigh"
STATUS = r"""Session: session S1 (S1)
File: /sessions/S1.jsonl
Directory: /project
Model: offline replay, thinking off
Phase: idle, 0 waiting to be said
Messages: 0, about 0 of 1000000 tokens"""

SLASH = [
    row("not-a-command", command("/dance", result("text", "[not a command] /dance"))),
    row("no-slash", command("hello", result("text", "[not a command] hello"))),
    row("status", command("/status", result("text", STATUS))),
    row("history-of-nothing", command("/history", result("text", "Nothing was said yet."))),
    row("history", PROMPT, command("/history", result("text", "user: hi\nassistant: hello there"))),
    row("new", command("/new", *resumed(S2, NEW, S2), result("new_session", "[New session started]", "S2"))),
    row(
        "tree",
        command("/new", *resumed(S2, NEW, S2), result("new_session", "[New session started]", "S2")),
        command("/tree <S1>", *resumed(NEW, S2, NEW), SWITCHED),
    ),
    row("tree-nowhere", command("/tree no", result("error", "Session not found in context: no"))),
    row(
        "resume",
        command("/new", *resumed(S2, NEW, S2), result("new_session", "[New session started]", "S2")),
        command("/resume <file of S1>", *resumed(NEW, NEW, S2), SWITCHED),
    ),
    row("resume-nothing", command("/resume /no", result("error", "Session file not found: /no"))),
    row(
        "model", command("/model offline guide", *told(GUIDE), result("text", "✓ Model set to offline guide"))
    ),
    row(
        "model-of-one-word",
        command("/model guide", result("text", "Usage: /model OR /model <provider> <model-id>")),
    ),
    row("model-unknown", command("/model no such", result("unsupported_model", "unknown model: no such"))),
    row(
        "thinking",
        command("/thinking high", *told(Look(level="high")), result("text", "✓ Thinking level set to high")),
    ),
    row(
        "thinking-unknown",
        command("/thinking x", result("error", f"Unknown thinking level: x. Allowed: {LEVELS}")),
    ),
    row(
        "compact-nothing",
        command(
            "/compact",
            *told(ASKED._replace(title="session S1")),
            *told(NEW),
            result("error", "Can't compact: there is nothing to compact yet"),
        ),
    ),
    row("remember-nothing", command("/remember", result("text", "Usage: /remember <text> [#tag …]"))),
    row("prompts", command("/prompts", result("text", "No prompts are there."))),
    row("skills", command("/skills", result("text", "No skills are there."))),
    row("jobs", command("/jobs", result("text", "No tool call runs."))),
    row("job-unknown", command("/job x", result("error", "Job not found: x. Running: none"))),
    row("cancel-job-unknown", command("/cancel-job x", result("error", "Job not found: x. Running: none"))),
    row(
        "login-where-no-key-is-wanted",
        command("/login", result("login-error", NO_KEY.partition(":provider: ")[2])),
    ),
    row(
        "login",
        command(
            "/login openai",
            event(
                "command-result",
                '{:type "login_start" :message _ :provider "openai" :uses-callback-server false'
                ' :url "https://platform.openai.com/api-keys" :session-id "S1"}',
                asked=True,
            ),
        ),
    ),
    row(
        "logout-of-nothing",
        command(
            "/logout openai",
            event(
                "command-result",
                '{:type "logout" :message "No key was entered for openai here." :provider "openai"'
                ' :session-id "S1"}',
                asked=True,
            ),
        ),
    ),
    row("quit", command("/quit", result("quit", ""))),
    row("exit", command("/exit", result("quit", ""))),
    row(
        "model-chosen",
        command("/model", action("A1", "select-model", "Model", MODEL_ITEMS)),
        chosen(
            "select-model",
            '["offline" "guide"]',
            *told(GUIDE),
            result("text", "✓ Model set to offline guide"),
        ),
    ),
    row(
        "thinking-chosen",
        command(
            "/thinking",
            action(
                "A1",
                "select-thinking-level",
                "Thinking level",
                [(each, each, f'"{each}"') for each in THINKING_LEVELS],
            ),
        ),
        chosen(
            "select-thinking-level",
            '"low"',
            *told(Look(level="low")),
            result("text", "✓ Thinking level set to low"),
        ),
    ),
    row(
        "session-chosen",
        command("/tree", action("A1", "select-session", "Turn to", [("S1", "session S1", '"S1"')])),
        chosen("select-session", '"<S1>"', *resumed(NEW), SWITCHED),
    ),
    row(
        "file-chosen",
        command(
            "/resume",
            action(
                "A1", "select-resume-session", "Go on with", [("S1", "session S1", '"/sessions/S1.jsonl"')]
            ),
        ),
        chosen("select-resume-session", '"<file of S1>"', *resumed(NEW), SWITCHED),
    ),
    row(
        "nothing-chosen",
        command("/tree", action("A1", "select-session", "Turn to", [("S1", "session S1", '"S1"')])),
        step(
            "frontend_action_result",
            '{:request-id "<A1>" :action-name "select-session" :status "cancelled"}',
            ACCEPTED,
        ),
        step(
            "frontend_action_result",
            '{:request-id "<A1>" :action-name "select-session" :status "submitted" :value "<S1>"}',
            error("request/not-found", "no frontend action A1 waits"),
        ),
    ),
    row(
        "choice-failed",
        command("/tree", action("A1", "select-session", "Turn to", [("S1", "session S1", '"S1"')])),
        step(
            "frontend_action_result",
            '{:request-id "<A1>" :action-name "select-session" :status "failed" :error-message "no window"}',
            event("command-result", '{:type "error" :message "no window"}', asked=True),
            ACCEPTED,
        ),
    ),
    row(
        "choice-of-another-kind",
        command("/tree", action("A1", "select-session", "Turn to", [("S1", "session S1", '"S1"')])),
        step(
            "frontend_action_result",
            '{:request-id "<A1>" :action-name "select-model" :status "cancelled"}',
            error("request/not-found", "no frontend action A1 waits"),
        ),
    ),
]


@pytest.mark.parametrize("row", SLASH)
def test_a_command_is_answered_by_these_frames(table: Table, row: Row) -> None:
    table.play(row)


def test_every_command_of_the_protocol_is_listed(table: Table) -> None:
    table.begin()
    told_by_op = table.front.ask("get_commands")[Keyword("data")][Keyword("commands")]
    names = {each[Keyword("name")].split()[0] for each in told_by_op}
    assert all(each.keys() == {Keyword("name"), Keyword("description")} for each in told_by_op)
    assert set(COMMANDS.split()) - names == set()
    for text in ("/help", "/?"):
        frames = table.front.exchange(
            f'{{:id "h" :kind :request :op "command" :params {{:text "{text}"}}}}', 2
        )
        message = frames[0][Keyword("data")][Keyword("message")]
        assert [line.split()[0] for line in message.splitlines()] == [
            each[Keyword("name")].split()[0] for each in told_by_op
        ]


# --- subscriptions ------------------------------------------------------------------------------------------

ALL = edn.dumps(sorted(REQUIRED))

SUBSCRIPTIONS = [
    row(
        "without-topics-nothing-is-added", step("subscribe", "{}", *shown(NEW), ok(f"{{:subscribed {ALL}}}"))
    ),
    row(
        "unknown-topics-are-dropped",
        step("unsubscribe", "{}", ok("{:subscribed []}")),
        step(
            "subscribe",
            '{:topics ["tool/result" "no/such" "footer/updated"]}',
            shown(NEW)[1],
            ok('{:subscribed ["footer/updated" "tool/result"]}'),
        ),
        step(
            "set_session_name", '{:name "x"}', told(Look(name="x", title="x"))[1], ok('{:session-name "x"}')
        ),
        step("unsubscribe", '{:topics ["footer/updated"]}', ok('{:subscribed ["tool/result"]}')),
        step("set_session_name", '{:name "y"}', ok('{:session-name "y"}')),
    ),
    row(
        "none-is-all",
        step("unsubscribe", "{}", ok("{:subscribed []}")),
        step("subscribe", '{:topics ["no/such"]}', *shown(NEW), ok("{:subscribed []}")),
        step(
            "set_session_name",
            '{:name "x"}',
            *told(Look(name="x", title="x")),
            ok('{:session-name "x"}'),
        ),
    ),
    row(
        "topics-of-the-ui-that-are-empty",
        step("unsubscribe", "{}", ok("{:subscribed []}")),
        step(
            "subscribe",
            '{:topics ["ui/widgets-updated" "ui/status-updated" "ui/notification"]}',
            ok('{:subscribed ["ui/notification" "ui/status-updated" "ui/widgets-updated"]}'),
        ),
    ),
    row(
        "focus-moves",
        step("new_session", "{}", *resumed(S2, NEW, S2), ENTERED),
        step("subscribe", '{:session-id "<S1>"}', *shown(NEW, S2, NEW), ok(f"{{:subscribed {ALL}}}")),
        step("get_state", "{}", ok(state(NEW))),
    ),
    row(
        "no-such-session",
        step(
            "subscribe", '{:session-id "no"}', error("request/not-found", "Session not found in context: no")
        ),
    ),
]


@pytest.mark.parametrize("row", SUBSCRIPTIONS)
def test_a_subscription_is_answered_after_how_things_are(table: Table, row: Row) -> None:
    table.play(row)
