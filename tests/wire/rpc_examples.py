"""rpc-edn to test with: a server that has shaken hands, and any plain value."""

from hypothesis import strategies as st

from fairlead.formats.edn import Keyword
from fairlead.wire.faults import Broken
from fairlead.wire.rpc import Error, Request, ServerConnection, encode

HANDSHAKE = (
    b'{:id "h" :kind :request :op "handshake" :params {:client-info {:name "t" :version "0"'
    b' :protocol-version "1.0"}}}\n'
)


def ready(max_pending: int = 64, max_line: int = 1 << 20) -> ServerConnection:
    """A server whose client has shaken hands; nothing is pending."""
    server = ServerConnection(max_pending=max_pending, max_line=max_line)
    server.receive(HANDSHAKE)
    server.respond("h")
    return server


def frames(received: list[Request | Error | Broken]) -> list[bytes | Request]:
    """What a door would send for the faults, and the requests that it would run."""
    return [
        item if isinstance(item, Request) else item.reply if isinstance(item, Broken) else encode(item)
        for item in received
    ]


texts = st.text(max_size=12)
names = st.from_regex(r"[a-z][a-z0-9-]{0,6}(/[a-z]{1,4})?", fullmatch=True)
keywords = names.map(Keyword)
plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | keywords,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keywords | texts, inner, max_size=4),
    max_leaves=12,
)
"""What every reader of EDN knows."""
maps = st.dictionaries(keywords, plain_values, max_size=4)
