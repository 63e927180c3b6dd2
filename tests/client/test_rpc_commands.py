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
    DONE,
    ENTERED,
    GUIDE,
    NEW,
    NO_KEY,
    PROMPT,
    S2,
    UI,
    Look,
    Row,
    Step,
    Table,
    Wanted,
    command,
    entered,
    error,
    event,
    listed,
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
    /job /cancel-job /worktree /login /logout /quit
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
            "[{:psi.agent-session/tool-lifecycle-summaries [:psi.tool-lifecycle.summary/tool-id]}]",
            "{:psi.agent-session/tool-lifecycle-summaries []}",
        ),
    ),
    row("widget-specs", query("[:psi.ui/widget-specs]", "{:psi.ui/widget-specs []}")),
    row(
        "ui",
        query(
            "[:psi.ui/widgets :psi.ui/statuses :psi.ui/active-dialog :psi.ui/visible-notifications"
            " :psi.ui/pending-dialog-count :psi.ui/dialog-queue-empty?]",
            "{:psi.ui/widgets [] :psi.ui/statuses [] :psi.ui/active-dialog nil"
            " :psi.ui/visible-notifications [] :psi.ui/pending-dialog-count 0"
            " :psi.ui/dialog-queue-empty? true}",
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
    order = "preserve" if name == "select-session" else "default"
    return event(
        "ui/frontend-action-requested",
        f'{{:request-id "{id}" :prompt "{prompt}" :ui/action {{:ui/action-id :{name} :ui/action-kind :select'
        f' :ui/action-name :{name} :ui/prompt "{prompt}" :ui/order :{order} :ui/items [{shown}]'
        f" :ui/on-submit {{:submit/kind :{ON_SUBMIT[name]}}}}}}}",
        asked=True,
    )


ON_SUBMIT = {
    "select-model": "set-model",
    "select-thinking-level": "set-thinking-level",
    "select-resume-session": "resume-session",
    "select-session": "select-session",
}


def chosen(name: str, value: str, *wanted: Wanted) -> Step:
    """An answer. The name in the action that is given back counts."""
    return step(
        "frontend_action_result",
        f'{{:request-id "r1" :action-name "other" :ui/action {{:ui/action-name :{name}}} :status :submitted'
        f" :value {value}}}",
        *wanted,
        ok('{:accepted true :request-id "r1"}'),
    )


SWITCHED = result("session_switch", "Switched to session S1")
MODEL_ITEMS = [
    (
        f"{provider}/{id}",
        f"{provider} {id}" + (" [reasoning]" if reasoning else ""),
        f'{{:provider "{provider}" :id "{id}"}}',
    )
    for provider, id, reasoning in (
        *((info.provider, info.id, info.reasoning) for info in BUILT_IN),
        ("busy", "signal", False),
    )
]
LEVELS = "off, minimal, low, medium, high, xhigh"
STATUS = listed(
    "Session status",
    "  Name    : -",
    "  State   : idle",
    "  Kind    : agent",
    "  ID      : S1",
    "  Model   : replay (thinking off)",
    "  Entries : 0",
    "  Context : 0%",
    "  Worktree: /project",
    "  File    : /sessions/S1.jsonl",
)
NEW_ONE = command(
    "/new",
    *entered(S2),
    result("new_session", "[New session started]", "S2"),
    then=shown(S2, NEW, S2),
)

THINKING_USAGE = "Usage: /thinking OR /thinking <level>"
TREE_USAGE = "Usage: /tree name <session-id|prefix> <name>"
REMEMBER_WHAT = "✗ Remember failed\n  reason: nothing to remember: /remember <text> [#tag …]"
NO_WORKTREE = listed("Git worktrees", "  cwd      : /project", "  inside   : false")
INVALID = "request/invalid-params"
NAMED = Look(name="big garden", title="big garden")
GUIDED = ok('{:model {:provider "offline" :id "guide"}}')
QUIT = event("command-result", '{:type "quit" :session-id "S1"}', asked=True)
SWITCH = '{:action/kind :switch-session :action/session-id "S1"}'
LIVE = action("r1", "select-session", "Select a live session", [("S1", "(session S1)", SWITCH)])


def login(text: str) -> Wanted:
    """What is shown as a message and is in no journal."""
    content = [fields(type=Keyword("text"), text=text)]
    shown = fields(role="assistant", content=content, text=text, session_id="S1")
    return event("assistant/message", shown, asked=True)


SLASH = [
    row("not-a-command", command("/dance", result("text", "[not a command] /dance"))),
    row("no-slash", command("hello", result("text", "[not a command] hello"))),
    row("status", command("/status", result("text", STATUS))),
    row("history-of-nothing", command("/history", result("text", listed("Message history", "  (empty)")))),
    row(
        "history",
        PROMPT,
        command(
            "/history",
            result("text", listed("Message history", "  [user] hi", "  [assistant] hello there")),
            after=DONE,
        ),
    ),
    row("new", NEW_ONE),
    row(
        "tree",
        NEW_ONE,
        command("/tree <S1>", *entered(NEW), then=shown(NEW, NEW, S2)),
        command("/tree <S1>", result("text", "Already active session: S1")),
    ),
    row("tree-nowhere", command("/tree no", result("text", "Session not found in context: no"))),
    row(
        "resume",
        NEW_ONE,
        command("/resume <file of S1>", *entered(NEW), then=shown(NEW, NEW, S2)),
    ),
    row("resume-nothing", command("/resume /no", result("text", "Session file not found: /no"))),
    row(
        "model",
        command(
            "/model offline guide",
            *told(GUIDE),
            result("text", "✓ Model set to offline guide"),
            after=GUIDE,
        ),
    ),
    row(
        "model-of-one-word",
        command("/model guide", result("text", "Usage: /model OR /model <provider> <model-id>")),
    ),
    row("model-unknown", command("/model no such", result("text", "Unknown model: no such"))),
    row(
        "thinking",
        command(
            "/thinking high",
            *told(Look(level="high")),
            result("text", "✓ Thinking level set to high"),
            after=Look(level="high"),
        ),
    ),
    row("thinking-in-two-words", command("/thinking a b", result("text", THINKING_USAGE))),
    row(
        "thinking-of-a-model-that-does-not",
        step("set_model", '{:provider :offline :model-id "guide"}', *told(GUIDE), GUIDED),
        step("set_thinking_level", "{:level :high}", *told(GUIDE), ok('{:thinking-level "off"}')),
        command(
            "/thinking low",
            *told(GUIDE),
            result("text", "✓ Thinking level set to low (guide does not reason: off)"),
            after=GUIDE,
        ),
    ),
    row(
        "thinking-unknown",
        command("/thinking x", result("text", f"Unknown thinking level: x. Allowed: {LEVELS}")),
    ),
    row(
        "compact-nothing",
        command(
            "/compact",
            *told(NEW._replace(phase="streaming")),
            *told(NEW),
            result("error", "Can't compact: there is nothing to compact yet"),
        ),
    ),
    row("remember-nothing", command("/remember", result("text", REMEMBER_WHAT))),
    row("prompts", command("/prompts", result("text", listed("Prompt Templates", "  (none discovered)")))),
    row("skills", command("/skills", result("text", listed("Skills", "  (none discovered)")))),
    row("jobs", command("/jobs", result("text", listed("Background jobs", "  (none)")))),
    row("job-unknown", command("/job x", result("text", "Job not found: x. Running: none"))),
    row("cancel-job-unknown", command("/cancel-job x", result("text", "Job not found: x. Running: none"))),
    row(
        "login-where-no-key-is-wanted",
        command("/login", result("login-error", NO_KEY.partition(":provider: ")[2])),
    ),
    row(
        "login",
        command(
            "/login openai",
            login("Login: openai — open URL: https://platform.openai.com/api-keys"),
            login("Paste authorization code as your next prompt message."),
        ),
        step("login_begin", '{:provider "openai"}', error(INVALID, "login already in progress")),
        step(
            "prompt",
            '{:message "not a key"}',
            login("✗ Login failed: invalid request parameter :input: a key is one word of ASCII characters"),
            *shown(NEW)[:2],
            ACCEPTED,
        ),
    ),
    row(
        "logout-of-nothing",
        command(
            "/logout openai",
            event(
                "command-result",
                '{:type "logout" :message "No key was entered for openai here." :session-id "S1"}',
                asked=True,
            ),
        ),
        command("/logout", result("logout", "No OAuth providers logged in. Use /login first.")),
    ),
    row("worktree", command("/worktree", result("text", NO_WORKTREE))),
    row(
        "tree-name",
        command(
            "/tree name <S1> big garden",
            *told(NAMED),
            result("text", 'Renamed session S1 to "big garden"'),
            after=NAMED,
        ),
        command("/tree name <S1>", result("text", TREE_USAGE), after=NAMED),
        command("/tree name no x", result("text", "Session not found in context: no"), after=NAMED),
    ),
    row("whole-words", command("/modelx", result("text", "[not a command] /modelx"))),
    row("fork-is-none", command("/fork", result("text", "[not a command] /fork"))),
    row(
        "a-command-as-a-prompt",
        step(
            "prompt",
            '{:message "/history"}',
            login(listed("Message history", "  (empty)")),
            *shown(NEW)[:2],
            ACCEPTED,
        ),
    ),
    row("quit", command("/quit", QUIT)),
    row("exit", command("/exit", QUIT)),
    row(
        "model-chosen",
        command("/model", action("r1", "select-model", "Select a model", MODEL_ITEMS)),
        chosen(
            "select-model",
            '{:provider "offline" :id "guide"}',
            *told(GUIDE),
            result("text", "✓ Model set to offline guide"),
            *shown(GUIDE)[:2],
        ),
    ),
    row(
        "thinking-chosen",
        command(
            "/thinking",
            action(
                "r1",
                "select-thinking-level",
                "Select a thinking level",
                [(each, each, f'"{each}"') for each in THINKING_LEVELS],
            ),
        ),
        chosen(
            "select-thinking-level",
            '"low"',
            *told(Look(level="low")),
            result("text", "✓ Thinking level set to low"),
            *shown(Look(level="low"))[:2],
        ),
        chosen("select-thinking-level", "nil", *shown(Look(level="low"))[:2]),  # it fits nothing
    ),
    row(
        "session-chosen",
        command("/tree", LIVE),
        NEW_ONE,
        chosen("select-session", '"<S1>"', *entered(NEW), *shown(NEW, NEW, S2)),
        chosen("select-session", SWITCH.replace("S1", "<S2>"), *entered(S2), *shown(S2, NEW, S2)),
    ),
    row(
        "file-chosen",
        command(
            "/resume",
            action(
                "r1",
                "select-resume-session",
                "Select a session to resume",
                [("S1", "(session S1)", '"/sessions/S1.jsonl"')],
            ),
        ),
        NEW_ONE,
        chosen("select-resume-session", '"<file of S1>"', *entered(NEW), *shown(NEW, NEW, S2)),
    ),
    row(
        "nothing-chosen",
        command("/tree", LIVE),
        step(
            "frontend_action_result",
            '{:request-id "r1" :action-name "select-session" :status "cancelled"}',
            result("text", "Cancelled select-session."),
            ACCEPTED,
        ),
    ),
    row(
        "choice-failed",
        command("/tree", LIVE),
        step(
            "frontend_action_result",
            '{:request-id "r1" :action-name "select-session" :status "failed" :error-message "no window"}',
            result("error", "no window"),
            ACCEPTED,
        ),
    ),
    row(
        "choice-that-nobody-asked-for",
        step(
            "frontend_action_result",
            '{:request-id "x" :action-name "select-model" :status :failed}',
            result("error", "Frontend action failed: select-model"),
            ACCEPTED,
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
        assert [line.split()[0] for line in message.splitlines()[1:-1]] == [
            each[Keyword("name")].split()[0] for each in told_by_op
        ]


# --- subscriptions ------------------------------------------------------------------------------------------

ALL = edn.dumps(sorted(REQUIRED))

SUBSCRIPTIONS = [
    row(
        "without-topics-nothing-is-added",
        step("subscribe", "{}", *UI, *shown(NEW), ok(f"{{:subscribed {ALL}}}")),
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
            UI[0],
            UI[2],
            ok('{:subscribed ["ui/notification" "ui/status-updated" "ui/widgets-updated"]}'),
        ),
    ),
    row(
        "focus-moves",
        step("new_session", "{}", *resumed(S2, NEW, S2), ENTERED),
        step("subscribe", '{:session-id "<S1>"}', *UI, *shown(NEW, NEW, S2), ok(f"{{:subscribed {ALL}}}")),
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
