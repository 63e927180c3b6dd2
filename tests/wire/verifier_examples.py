"""The verifier's envelopes to test with: one of each type, and any."""

from typing import get_args

from hypothesis import strategies as st

from fairlead.wire.verifier import (
    Bye,
    Confidence,
    Envelope,
    Event,
    EventName,
    Hello,
    HelloAck,
    Ping,
    Pong,
    Prompt,
    PromptAck,
    Report,
    Status,
)

SESSION = "a1b2"
EXAMPLES: dict[str, Envelope] = {
    "hello": Hello(role="verifier", session_id=SESSION, pid=4242),
    "hello_ack": HelloAck(session_id=SESSION),
    "prompt": Prompt(session_id=SESSION, message="Add NOT NULL to email", correlation_id="c-1"),
    "prompt_ack": PromptAck(session_id=SESSION, correlation_id="c-1", ok=True),
    "report": Report(
        session_id=SESSION, turn_index=3, status="verified", summary="ok", sections={"a": "b"}, raw="r"
    ),
    "event": Event(name="stop", session_id=SESSION, turn_index=3, timestamp=1714312800000),
    "ping": Ping(nonce="1"),
    "pong": Pong(nonce="1"),
    "bye": Bye(reason="done"),
}


def _joined(text: str) -> str:
    """The text as JavaScript has it: two halves of a surrogate pair that meet are one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


_odd = st.sampled_from('\n\r\0"\\\x7f\u2028\u2029\ufeff\ud83d\ude00')
texts = st.text(st.characters() | _odd, max_size=12).map(_joined)
"""Any text, and often one with a character that could be mistaken, or half of one."""
_whole = texts.map(lambda text: text.encode("utf-8", "replace").decode())  # without such halves
_ids, _numbers = _whole, st.integers(0, 2**53)


def _maybe(strategy: st.SearchStrategy[str] | st.SearchStrategy[int]) -> st.SearchStrategy[str | int | None]:
    return st.none() | strategy


ENVELOPES: dict[str, st.SearchStrategy[Envelope]] = {
    "hello": st.builds(
        Hello, role=st.sampled_from(["verifier", "verifiable"]), session_id=_ids, pid=_numbers
    ),
    "hello_ack": st.builds(HelloAck, session_id=_ids),
    "prompt": st.builds(
        Prompt,
        session_id=_ids,
        message=texts,
        deliver_as=st.sampled_from([None, "followUp", "steer"]),
        correlation_id=_ids,
    ),
    "prompt_ack": st.builds(
        PromptAck, session_id=_ids, correlation_id=_ids, ok=st.booleans(), error=_maybe(texts)
    ),
    "report": st.builds(
        Report,
        session_id=_ids,
        turn_index=_numbers,
        status=st.sampled_from(get_args(Status)),
        confidence=st.sampled_from([None, *get_args(Confidence)]),
        summary=texts,
        sections=st.dictionaries(texts, texts, max_size=3),
        raw=texts,
    ),
    "event": st.builds(
        Event,
        name=st.sampled_from(get_args(EventName)),
        session_id=_ids,
        turn_index=_maybe(_numbers),
        detail=_maybe(texts),
        timestamp=_numbers | st.floats(0, 2**53),
        user_prompt=_maybe(texts),
        session_file_start_line=_maybe(_numbers),
        session_file_end_line=_maybe(_numbers),
    ),
    "ping": st.builds(Ping, nonce=texts),
    "pong": st.builds(Pong, nonce=texts),
    "bye": st.builds(Bye, reason=texts),
}
envelopes = st.one_of(*ENVELOPES.values())
