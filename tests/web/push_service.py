"""A push service over TLS on this machine, and a browser that reads what comes: the other side of RFC 8291
and RFC 8292, written from these and not from what the console has.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.server
import ipaddress
import json
import os
import ssl
import struct
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fairlead.web.push_crypto import BrowserKeys
from tests.hosting import WAIT


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def bytes_of(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "===")


def _hkdf(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    """HKDF for at most one block, by hand."""
    key = hmac.digest(salt, secret, hashlib.sha256)
    return hmac.digest(key, info + b"\x01", hashlib.sha256)[:length]


class PushedBrowser:
    """One that subscribed."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.point = _point(self._private.public_key())
        self.auth = os.urandom(16)

    @property
    def keys(self) -> BrowserKeys:
        return BrowserKeys(self.point, self.auth)

    def subscription(self, endpoint: str) -> dict[str, Any]:
        """As `PushSubscription.toJSON` has it."""
        keys = {"p256dh": text_of(self.point), "auth": text_of(self.auth)}
        return {"endpoint": endpoint, "expirationTime": None, "keys": keys}

    def read(self, message: bytes) -> bytes:
        """The text of a message. Raises InvalidTag if it is for another browser."""
        salt, (size, length) = message[:16], struct.unpack("!IB", message[16:21])
        theirs, sealed = message[21 : 21 + length], message[21 + length :]
        assert len(sealed) <= size
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs)
        shared = self._private.exchange(ec.ECDH(), public)
        secret = _hkdf(self.auth, shared, b"WebPush: info\x00" + self.point + theirs, 32)
        key = _hkdf(salt, secret, b"Content-Encoding: aes128gcm\x00", 16)
        nonce = _hkdf(salt, secret, b"Content-Encoding: nonce\x00", 12)
        padded = AESGCM(key).decrypt(nonce, sealed, None).rstrip(b"\x00")
        assert padded[-1:] == b"\x02"
        return padded[:-1]


def _point(public: ec.EllipticCurvePublicKey) -> bytes:
    return public.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def checked_signature(header: str) -> tuple[bytes, dict[str, Any]]:
    """The public key and the claims of a VAPID header. Raises InvalidSignature."""
    scheme, _, rest = header.partition(" ")
    assert scheme == "vapid"
    fields = dict(each.strip().split("=", 1) for each in rest.split(","))
    token, key = fields["t"], bytes_of(fields["k"])
    head, body, signature = token.split(".")
    assert json.loads(bytes_of(head)) == {"typ": "JWT", "alg": "ES256"}
    raw = bytes_of(signature)
    assert len(raw) == 64
    both = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
    public.verify(both, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
    return key, json.loads(bytes_of(body))


class Pushed(NamedTuple):
    """A request that the service got."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float


class PushService:
    """Listens at localhost with a certificate of its own, and answers as it is told."""

    def __init__(self, directory: Path, host: str = "localhost") -> None:
        self.got: list[Pushed] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        """What it answers to the next requests; after those it takes everything."""
        self.goes_on = threading.Event()
        """Cleared, it lets who asks wait."""
        self.goes_on.set()
        self.inside = self.most_inside = 0
        """How many ask at a time."""
        lock = threading.Lock()
        self.authority = directory / "authority.pem"
        key = directory / "key.pem"
        _certified(self.authority, key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, key)
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    service.inside += 1
                    service.most_inside = max(service.most_inside, service.inside)
                service.goes_on.wait(WAIT)
                with lock:
                    service.inside -= 1
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, more = service.answers.pop(0) if service.answers else (201, {})
                service.got.append(Pushed(self.path, headers, body, time.monotonic()))
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]
        self.name = f"{host}:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def endpoint(self, name: str = "of-a-browser") -> str:
        return f"https://{self.name}/push/{name}"

    @property
    def settings(self) -> dict[str, str]:
        """What a console needs to push here."""
        return {"FAIRLEAD_NOTIFY_PUSH_SERVICE": self.name, "SSL_CERT_FILE": str(self.authority)}

    def wait(self, count: int) -> list[Pushed]:
        """The requests, as soon as there are so many."""
        deadline = time.monotonic() + WAIT
        while len(self.got) < count:
            assert time.monotonic() < deadline, f"{len(self.got)} of {count} came"
            time.sleep(0.02)
        return self.got

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _certified(certificate: Path, key: Path) -> None:
    """Write a certificate for localhost that signs itself, and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
