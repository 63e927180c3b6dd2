"""`fairlead acp` as an editor sees it, with a real daemon, our own agent and the small one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.wire import acp
from fairlead.wire.acp import ErrorCode
from tests.client.acp_editor import AcpEditor
from tests.hosted.small import SmallHosting
from tests.hosting import Hosting, is_alive

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def hosting() -> Iterator[SmallHosting]:
    hosting = SmallHosting("load", "image")
    yield hosting
    hosting.close()


@pytest.fixture
def editor(hosting: SmallHosting) -> Iterator[AcpEditor]:
    """An editor whose new sessions have the small agent."""
    with AcpEditor(hosting, "--with", "small", cwd=hosting.project) as editor:
        yield editor


@pytest.fixture
def plain(hosting: SmallHosting) -> Iterator[AcpEditor]:
    """An editor whose new sessions have our own agent."""
    with AcpEditor(hosting, cwd=hosting.project) as editor:
        yield editor


def code(answer: object) -> int:
    assert isinstance(answer, acp.Error), answer
    return answer.code


def test_it_says_what_it_can_do_without_a_daemon() -> None:
    hosting = Hosting()
    with AcpEditor(hosting) as editor:
        assert editor.hello.protocol_version == acp.VERSION
        assert editor.hello.agent_info.name == "fairlead"
        assert editor.hello.auth_methods == ()
        can = editor.hello.agent_capabilities
        assert can.load_session
        assert can.prompt_capabilities == acp.PromptCapabilities(image=True, embedded_context=True)
        assert can.session_capabilities == acp.SessionCapabilities(list={}, resume={}, close={})
        refused = editor.ask(acp.Authenticate(method_id="password"))
        assert code(refused) == ErrorCode.INVALID_PARAMS
        assert "no authentication is needed" in refused.message
    assert hosting.processes() == []
    hosting.close()


def test_our_own_agent_answers(plain: AcpEditor, hosting: SmallHosting) -> None:
    session = plain.new()
    (hosting.project / "notes.md").write_text("roses\n")
    result = plain.prompt(session, "read notes.md")
    assert result.stop_reason == "end_turn"
    assert plain.text(session)
    call = plain.of(acp.ToolCall)[0]
    assert call.kind == "read"
    ended = plain.of(acp.ToolCallUpdate)[-1]
    assert ended.status == "completed"
    assert "roses" in str(ended.content)
    assert [each.path for each in ended.locations or ()] == [str(hosting.project / "notes.md")]


def test_text_thoughts_plans_and_tools_of_a_hosted_agent_are_told(
    editor: AcpEditor, hosting: SmallHosting
) -> None:
    session = editor.new()
    (hosting.project / "free.txt").unlink(missing_ok=True)
    result = editor.prompt(session, "think plan free done")
    assert (result.stop_reason, result.usage.total_tokens) == ("end_turn", 12)
    assert (editor.text(), editor.text(kind=acp.AgentThoughtChunk)) == ("done ", "let me see")
    (plan,) = editor.of(acp.Plan)
    assert [(each.content, each.status) for each in plan.entries] == [
        ("look", "completed"),
        ("write", "in_progress"),
        ("test", "pending"),
    ]
    (call,) = editor.of(acp.ToolCall)
    running, ended = editor.of(acp.ToolCallUpdate)
    assert (call.kind, call.status) == ("execute", "pending")
    assert (running.title, running.status) == ("Write free.txt", "in_progress")
    assert ended.status == "completed"
    change = acp.Diff(path=str(hosting.project / "free.txt"), new_text="hi\n")
    assert ended.content == (change,)
    assert editor.of(acp.UserMessageChunk) == []


def test_a_hosted_agents_command_is_told_before_it_is_known_to_run(
    editor: AcpEditor, hosting: SmallHosting
) -> None:
    session = editor.new()
    (hosting.project / "enough").touch()
    editor.prompt(session, "quiet")
    (call,) = editor.of(acp.ToolCall)
    told, running, ended = editor.of(acp.ToolCallUpdate)
    assert (call.status, told.title, told.status) == ("pending", "sow 3 seeds", None)
    assert (running.title, running.status, ended.status) == ("sow 3 seeds", "in_progress", "completed")
    assert "all 3" in str(ended.content)


@pytest.mark.parametrize(("option", "said"), [("allow", "yes-once "), ("deny", "denied ")])
def test_a_permission_is_asked_with_the_agents_own_options(editor: AcpEditor, option: str, said: str) -> None:
    session = editor.new()
    turn = editor.say(session, "tool")
    id, wanted = editor.question()
    assert [(each.option_id, each.name, each.kind) for each in wanted.options] == [
        ("allow", "Allow once", "allow_once"),
        ("always", "Always allow", "allow_always"),
        ("deny", "Reject", "reject_once"),
    ]
    assert wanted.tool_call.tool_call_id == editor.of(acp.ToolCall)[0].tool_call_id
    editor.choose(id, option)
    assert editor.answer(turn).stop_reason == "end_turn"
    assert editor.text() == said
    assert editor.of(acp.ToolCallUpdate)[-1].status == ("completed" if option == "allow" else "failed")


def test_our_own_agents_calls_are_asked_about_with_their_diff(
    plain: AcpEditor, hosting: SmallHosting
) -> None:
    session = plain.new()
    turn = plain.say(session, "run touch made.txt")
    id, wanted = plain.question()
    assert wanted.tool_call.kind == "execute"
    assert [each.kind for each in wanted.options] == ["allow_once", "allow_always", "reject_once"]
    plain.choose(id, "allow")
    assert plain.answer(turn).stop_reason == "end_turn"
    assert (hosting.project / "made.txt").exists()
    assert "allowed by Rose" in hosting.run("timeline", session).stdout


def test_cancelling_ends_the_turn_and_its_questions(editor: AcpEditor, hosting: SmallHosting) -> None:
    session = editor.new()
    turn = editor.say(session, "tool never")
    editor.question()
    editor.cancel(session)
    assert editor.answer(turn).stop_reason == "cancelled"
    assert hosting.ask("approvals")["approvals"] == []
    assert editor.prompt(session, "again").stop_reason == "end_turn"
    turn = editor.say(session, "hang")
    editor.until(lambda: "hanging" in editor.text())
    editor.cancel(session)
    assert editor.answer(turn).stop_reason == "cancelled"


def test_a_turn_that_fails_is_an_error_of_the_prompt(editor: AcpEditor) -> None:
    failed = editor.prompt(editor.new(), "fail")
    assert code(failed) == ErrorCode.INTERNAL
    assert "no model answers" in failed.message


def test_the_first_answer_counts_and_the_question_is_withdrawn(
    editor: AcpEditor, hosting: SmallHosting
) -> None:
    session = editor.new()
    turn = editor.say(session, "tool done")
    with AcpEditor(hosting, cwd=hosting.project) as other:
        assert isinstance(other.load(session), acp.OpenSessionResult)
        mine, theirs = editor.question()[0], other.question()[0]
        other.choose(theirs, "deny")
        assert editor.answer(turn).stop_reason == "end_turn"
        assert editor.withdrawn == [mine]
        other.until(lambda: other.text() == "denied done ")
        assert other.text(kind=acp.UserMessageChunk) == "tool done"
    assert editor.text() == "denied done "


def test_loading_replays_the_conversation_and_follows_what_others_say(
    editor: AcpEditor, hosting: SmallHosting
) -> None:
    session = editor.new()
    (hosting.project / "free.txt").unlink(missing_ok=True)
    editor.prompt(session, "think free done")
    with AcpEditor(hosting, cwd=hosting.project) as other:
        loaded = other.load(session)
        assert loaded.modes.current_mode_id == "ask"
        assert other.text(kind=acp.UserMessageChunk) == "think free done"
        assert (other.text(), other.text(kind=acp.AgentThoughtChunk)) == ("done ", "let me see")
        (call,), (ended,) = other.of(acp.ToolCall), other.of(acp.ToolCallUpdate)
        assert (call.title, ended.status) == ("Write free.txt", "completed")
        assert [type(each) for each in ended.content or ()] == [acp.Diff]
        turn = editor.say(session, "slow")
        other.until(lambda: "3 " in other.text())
        joined = other.say(session, "more")  # steers the turn that runs
        assert editor.answer(turn).stop_reason == other.answer(joined).stop_reason == "end_turn"
        editor.until(lambda: editor.text().endswith("more "))
        assert editor.text() == other.text()
        assert editor.text(kind=acp.UserMessageChunk) == "more"
        assert other.text(kind=acp.UserMessageChunk) == "think free doneslow"


def test_loading_in_the_middle_of_an_answer_misses_nothing(editor: AcpEditor, hosting: SmallHosting) -> None:
    session = editor.new()
    turn = editor.say(session, "slow slow")
    editor.until(lambda: "5 " in editor.text())
    with AcpEditor(hosting, cwd=hosting.project) as other:
        other.load(session)
        editor.answer(turn)
        other.until(lambda: len(other.text()) >= len(editor.text()))
        assert other.text() == editor.text()


def test_resuming_replays_nothing(editor: AcpEditor, hosting: SmallHosting) -> None:
    session = editor.new()
    editor.prompt(session, "before")
    with AcpEditor(hosting, cwd=hosting.project) as other:
        resumed = other.ask(acp.ResumeSession(session_id=session, cwd=other.cwd))
        assert isinstance(resumed, acp.OpenSessionResult)
        assert other.prompt(session, "after").stop_reason == "end_turn"
        assert (other.text(), other.of(acp.UserMessageChunk)) == ("after ", [])


def test_sessions_are_listed_by_pages(plain: AcpEditor, hosting: SmallHosting) -> None:
    place = hosting.directory / "listed"
    place.mkdir()
    for number in range(3):
        plain.prompt(plain.new(str(place)), f"hello {number}")
    found = plain.ask(acp.ListSessions(cwd=str(place)))
    assert [each.title for each in found.sessions] == ["hello 2", "hello 1", "hello 0"]
    assert {each.cwd for each in found.sessions} == {str(place)}
    assert found.next_cursor is None
    assert len(plain.ask(acp.ListSessions()).sessions) > 3
    assert plain.ask(acp.ListSessions(cwd=str(place), cursor="3")).sessions == ()
    assert code(plain.ask(acp.ListSessions(cursor="x"))) == ErrorCode.INVALID_PARAMS


def test_a_session_has_one_title_wherever_it_is_shown(editor: AcpEditor, hosting: SmallHosting) -> None:
    place = hosting.directory / "titled"
    place.mkdir()
    session = editor.new(str(place))
    for text in ("mend\nthe gate " + 20 * "now ", "and the door"):
        editor.prompt(session, text)
    editor.until(lambda: bool(editor.of(acp.SessionInfoChanged)))
    with AcpEditor(hosting, cwd=place) as other:
        other.load(session)
        other.until(lambda: bool(other.of(acp.SessionInfoChanged)))
        other.prompt(session, "and the lock")
        (listed,) = other.ask(acp.ListSessions(cwd=str(place))).sessions
        told = [each.title for every in (editor, other) for each in every.of(acp.SessionInfoChanged)]
        assert told == [listed.title] * 2
        assert str(listed.title).startswith("mend the gate now")
        hosting.ask("set_session_name", session_id=session, name="lock")
        other.until(lambda: other.of(acp.SessionInfoChanged)[-1].title == "lock")
        assert other.ask(acp.ListSessions(cwd=str(place))).sessions[0].title == "lock"


def test_modes_and_options_are_set(editor: AcpEditor, plain: AcpEditor) -> None:
    session = editor.new()
    editor.prompt(session, "hello")
    editor.until(lambda: bool(editor.of(acp.ConfigOptionsChanged)))
    assert editor.ask(acp.SetMode(session_id=session, mode_id="bold")) == acp.Empty()
    editor.prompt(session, "mode")
    assert editor.text().endswith("mode bold ")
    result = editor.ask(acp.SetConfigOption(session_id=session, config_id="mode", value="ask"))
    assert [each.current_value for each in result.config_options] == ["ask"]
    refused = editor.ask(acp.SetMode(session_id=session, mode_id="none"))
    assert "has no mode 'none'" in refused.message
    own = plain.ask(acp.NewSession(cwd=plain.cwd, mcp_servers=()))
    mode, model = own.config_options
    assert (mode.id, mode.current_value) == ("mode", "ask")
    assert (model.category, model.current_value) == ("model", "offline/guide")
    given = acp.SetConfigOption(session_id=own.session_id, config_id="model", value="no/such")
    assert code(plain.ask(given)) == ErrorCode.INTERNAL
    given = acp.SetConfigOption(session_id=own.session_id, config_id="model", value=model.current_value)
    assert plain.ask(given).config_options == own.config_options


def test_slash_commands_are_offered_and_run(plain: AcpEditor) -> None:
    session = plain.new()
    plain.until(lambda: bool(plain.of(acp.AvailableCommands)))
    names = [each.name for each in plain.of(acp.AvailableCommands)[0].available_commands]
    assert "status" in names
    assert not {"login", "new", "quit"}.intersection(names)
    assert plain.prompt(session, "/status").stop_reason == "end_turn"
    assert "Session status" in plain.text()
    assert plain.prompt(session, "/login openai").stop_reason == "end_turn"
    assert "/login is not for editors" in plain.text()


def test_a_command_that_wants_a_choice_offers_it(plain: AcpEditor) -> None:
    session = plain.new()
    turn = plain.say(session, "/model")
    id, wanted = plain.question()
    assert wanted.tool_call.title == "Select a model"
    assert [each.kind for each in wanted.options][-1] == "reject_once"
    plain.choose(id, "0")
    assert plain.answer(turn).stop_reason == "end_turn"
    assert "guide" in plain.text()


def test_files_and_images_of_a_prompt_arrive(editor: AcpEditor, hosting: SmallHosting) -> None:
    session = editor.new()
    blocks = (
        acp.Text(text="see "),
        acp.ResourceLink(uri="file:///a/b.py", name="b.py"),
        acp.EmbeddedResource(resource=acp.ResourceContents(uri="file:///c.txt", text="inside")),
        acp.Image(data=PIXEL, mime_type="image/png"),
    )
    editor.answer(editor.begin(acp.Prompt(session_id=session, prompt=blocks)))
    said = [each for each in hosting.received if each.get("method") == "session/prompt"][-1]["params"][
        "prompt"
    ]
    assert (
        said[0]["text"] == 'see [b.py](file:///a/b.py)\n\n<context ref="file:///c.txt">\ninside\n</context>'
    )
    assert (said[1]["type"], said[1]["mimeType"]) == ("image", "image/png")
    empty = editor.ask(acp.Prompt(session_id=session, prompt=(acp.Text(text=" "),)))
    assert code(empty) == ErrorCode.INVALID_PARAMS


def test_mcp_servers_are_passed_on_or_the_editor_is_told_that_they_are_not(
    editor: AcpEditor, plain: AcpEditor, hosting: SmallHosting
) -> None:
    env = (acp.NamedValue(name="KEY", value="hidden"),)
    server = acp.McpServer(name="tools", command="/bin/tools", args=("-x",), env=env)
    given = acp.NewSession(cwd=editor.cwd, mcp_servers=(server,))
    session = editor.ask(given).session_id
    editor.prompt(session, "hello")
    opened = [each for each in hosting.received if each.get("method") == "session/new"][-1]
    assert [each for each in opened["params"]["mcpServers"] if each["name"] == "tools"] == [
        {
            "name": "tools",
            "command": "/bin/tools",
            "args": ["-x"],
            "env": [{"name": "KEY", "value": "hidden"}],
        }
    ]
    assert "MCP" not in editor.text(kind=acp.AgentThoughtChunk)
    own = plain.ask(given).session_id
    plain.until(lambda: "MCP servers of the editor are not used" in plain.text(own, acp.AgentThoughtChunk))


def test_every_new_session_can_be_a_named_one(hosting: SmallHosting) -> None:
    hosting.open("garden")
    with AcpEditor(hosting, "--session", "garden", cwd=hosting.project) as editor:
        first, second = editor.new(), editor.new()
        assert (first, second) == (hosting.found("garden")["id"], f"{first}+2")
        assert editor.prompt(first, "hello").stop_reason == "end_turn"
        editor.until(lambda: editor.text(second) == "hello ")
        assert editor.text(second, acp.UserMessageChunk) == "hello"


def test_a_session_can_be_closed_and_goes_on(editor: AcpEditor, hosting: SmallHosting) -> None:
    session = editor.new()
    editor.prompt(session, "hello")
    hosting.ask("session_prompt", name=session, text="slow done")
    editor.until(lambda: "3 " in editor.text())
    assert editor.ask(acp.CloseSession(session_id=session)) == acp.Empty()
    before = len(editor.updates)
    hosting.until(lambda: hosting.found(session)["state"] == "idle")
    assert hosting.told(session)[-1].endswith("done")
    assert isinstance(editor.load(session), acp.OpenSessionResult)
    assert len(editor.updates) > before


def test_the_turn_goes_on_when_the_editor_exits(editor: AcpEditor, hosting: SmallHosting) -> None:
    session = editor.new()
    editor.say(session, "slow done")
    editor.until(lambda: "3 " in editor.text())
    assert editor.process.stdin is not None
    editor.process.stdin.close()
    assert editor.process.wait(30) == 0
    hosting.until(lambda: hosting.found(session)["state"] == "idle")
    assert hosting.told(session)[-1].endswith("done")


# --- bad input ----------------------------------------------------------------------------------------------


def test_unknown_sessions_and_places_are_errors(editor: AcpEditor, hosting: SmallHosting) -> None:
    session = editor.new()
    assert code(editor.load("11111111-1111-1111-1111-111111111111")) == ErrorCode.NOT_FOUND
    elsewhere = editor.load(session + "+9", "/")
    assert f"works in {hosting.project}, not in '/'" in elsewhere.message
    hosting.start("shell", "sleep 60")
    assert "a terminal session" in editor.load("shell").message
    hosting.end_sessions()
    assert code(editor.ask(acp.NewSession(cwd="here", mcp_servers=()))) == ErrorCode.INVALID_PARAMS
    nowhere = editor.ask(acp.NewSession(cwd="/no/such/place", mcp_servers=()))
    assert code(nowhere) == ErrorCode.INVALID_PARAMS
    assert code(editor.load(session)) == ErrorCode.INVALID_REQUEST  # it is open
    assert editor.prompt(session, "still here").stop_reason == "end_turn"


def test_lines_that_make_no_sense_get_one_error_each(hosting: SmallHosting) -> None:
    lines = [
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
        b'{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}',
        b'{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":1}}',
        b'{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}',
        b'{"jsonrpc":"2.0","id":5,"method":"session/delete","params":{"sessionId":"x"}}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":6,"method":"session/new","params":{"cwd":"/"}}',
        b'{"jsonrpc":"2.0","id":7,"x":"' + b"y" * (17 * 1024 * 1024) + b'"}',
        b'{"jsonrpc":"2.0","id":8,"method":"authenticate","params":{"methodId":"none"}}',
    ]
    done = subprocess.run(
        [*hosting.command, "acp"],
        env=hosting.environment,
        input=b"\n".join([*lines, b""]),
        capture_output=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    ids = [each["id"] for each in answers]
    assert ids == [None, None, None, 1, 2, 3, 4, 5, 6, None, 8]
    assert [each["id"] for each in answers if "result" in each] == [3]
    assert all(each["error"]["message"] for each in answers if "error" in each)


def test_an_editor_that_does_not_read_loses_nothing(hosting: SmallHosting) -> None:
    with AcpEditor(hosting, "--with", "small", cwd=hosting.project) as editor:
        session = editor.new()
        turns = 3
        for _ in range(turns):
            hosting.ask("session_prompt", name=session, text="flood flood flood flood flood")
        hosting.until(lambda: hosting.found(session)["state"] == "idle")
        flood = "".join(f"{number} " for number in range(1000)) * 5
        editor.until(lambda: len(editor.text()) >= turns * len(flood))
        assert editor.text() == flood * turns
        assert is_alive(editor.process.pid)
        status = Path(f"/proc/{editor.process.pid}/status")
        if os.path.exists(status):
            memory = int(status.read_text().split("VmHWM:")[1].split()[0])
            assert memory < 150 * 1024
