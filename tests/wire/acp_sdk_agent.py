"""An agent made with the protocol's Python SDK, on stdin and stdout. Run by the Python of `.venv/peers`."""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp import helpers, schema

REASONS: dict[Any, str] = {"yes": "end_turn", "no": "refusal"}


class Agent:
    """Answers a prompt with one message of each kind and asks for a permission."""

    client: Any = None

    def on_connect(self, client: Any) -> None:
        self.client = client

    async def initialize(self, protocol_version: int, **more: Any) -> Any:
        return schema.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True),
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
            auth_methods=[schema.AuthMethodAgent(id="key", name="A key")],
            agent_info=schema.Implementation(name="sdk", version="0"),
        )

    async def authenticate(self, method_id: str, **more: Any) -> None:
        if method_id != "key":
            raise acp.RequestError.invalid_params({"methodId": method_id})

    async def new_session(self, cwd: str, **more: Any) -> Any:
        modes = schema.SessionModeState(
            current_mode_id="ask", available_modes=[schema.SessionMode(id="ask", name="Ask")]
        )
        values = [schema.SessionConfigSelectOption(value="big", name="Big")]
        model = schema.SessionConfigOptionSelect(
            id="model", name="Model", type="select", current_value="big", options=values
        )
        return schema.NewSessionResponse(session_id="one", modes=modes, config_options=[model])

    async def load_session(self, session_id: str, **more: Any) -> None:
        await self.client.session_update(session_id, helpers.update_user_message_text("before"))

    async def list_sessions(self, **more: Any) -> Any:
        return schema.ListSessionsResponse(sessions=[schema.SessionInfo(session_id="one", cwd="/work")])

    async def set_session_mode(self, session_id: str, mode_id: str, **more: Any) -> None:
        await self.client.session_update(
            session_id,
            schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode_id),
        )

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **more: Any) -> Any:
        return schema.SetSessionConfigOptionResponse(config_options=[])

    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> Any:
        text = prompt[0].text
        for update in (
            helpers.update_agent_thought_text("hm"),
            helpers.update_agent_message_text(f"you said {text}"),
            helpers.update_plan([helpers.plan_entry("edit a")]),
            helpers.start_tool_call(
                "t1",
                "Edit a",
                kind="edit",
                status="pending",
                content=[helpers.tool_diff_content("/project/a", "new", "old")],
                locations=[schema.ToolCallLocation(path="/project/a", line=3)],
                raw_input={"path": "a"},
            ),
            helpers.update_tool_call("t1", status="in_progress"),
        ):
            await self.client.session_update(session_id, update)
        try:
            await self.client.read_text_file(session_id, "/etc/passwd")
        except acp.RequestError as error:
            await self.client.session_update(session_id, helpers.update_agent_message_text(str(error.code)))
        answer = await self.client.request_permission(
            session_id,
            schema.ToolCallUpdate(tool_call_id="t1", title="Edit a"),
            [
                schema.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
                schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
            ],
        )
        chosen = getattr(answer.outcome, "option_id", None)
        return schema.PromptResponse(stop_reason=REASONS.get(chosen, "cancelled"))

    async def cancel(self, session_id: str, **more: Any) -> None:
        pass


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Agent()))
