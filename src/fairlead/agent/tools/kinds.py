"""What kind of file some bytes begin: a picture and its size, another well-known format, or text."""

from __future__ import annotations

import codecs
import struct

from msgspec import Struct

HEAD = 256 * 1024
"""How many bytes are looked at. In a photograph, the size may come after a large preview."""
_TEXT_HEAD = 8 * 1024
_MAX_ODD = 0.1
"""How much of a text may be control characters, or wrong in UTF-8, before it counts as binary."""
_ODD = frozenset({*range(7), *range(14, 27), *range(28, 32), 127})

_MAGIC = (
    (b"\x7fELF", "ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"MZ", "Windows program"),
    (b"\0asm", "WebAssembly module"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive or office document"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\0", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"\0\0\x01\0", "icon"),
    (b"BM", "BMP picture"),
    (b"II*\0", "TIFF picture"),
    (b"MM\0*", "TIFF picture"),
    (codecs.BOM_UTF32_LE, "UTF-32 text"),
    (codecs.BOM_UTF16_LE, "UTF-16 text"),
    (codecs.BOM_UTF16_BE, "UTF-16 text"),
)


class ImageFormat(Struct, frozen=True):
    """A picture; without width and height if they could not be found."""

    name: str
    mime_type: str
    width: int = 0
    height: int = 0


def picture(head: bytes) -> ImageFormat | None:
    """The picture that begins like this, if it is one that models know."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return ImageFormat("PNG", "image/png", *struct.unpack_from(">II", head, 16))
        if head.startswith((b"GIF87a", b"GIF89a")):
            return ImageFormat("GIF", "image/gif", *struct.unpack_from("<HH", head, 6))
        if head.startswith(b"\xff\xd8\xff"):
            return ImageFormat("JPEG", "image/jpeg", *_jpeg_size(head))
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return ImageFormat("WebP", "image/webp", *_webp_size(head))
    except struct.error:
        return ImageFormat("broken", "application/octet-stream")
    return None


def _jpeg_size(head: bytes) -> tuple[int, int]:
    at = 2
    while head[at : at + 1] == b"\xff":
        marker = head[at + 1 : at + 2]
        if b"\xc0" <= marker <= b"\xcf" and marker not in (b"\xc4", b"\xc8", b"\xcc"):
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        at += 2 + max(2, int(struct.unpack_from(">H", head, at + 2)[0]))
    return 0, 0


def _webp_size(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def binary(head: bytes) -> str | None:
    """What kind of binary file begins like this; None for text."""
    begin = head[:_TEXT_HEAD]
    is_odd = b"\0" in begin or _odd_part(begin) > _MAX_ODD
    if not is_odd and not begin.startswith(b"%PDF-"):
        return None
    return next((name for magic, name in _MAGIC if begin.startswith(magic)), "unknown binary data")


def _odd_part(begin: bytes) -> float:
    if not begin:
        return 0.0
    wrong = begin.decode("utf-8", "replace").count("\N{REPLACEMENT CHARACTER}")
    return (wrong + sum(byte in _ODD for byte in begin)) / len(begin)


def size_in_words(size: int) -> str:
    """A size for people.

    >>> size_in_words(900), size_in_words(104_857_600)
    ('900 bytes', '104.9 MB')
    """
    if size < 1000:
        return f"{size} bytes"
    if size < 1_000_000:
        return f"{size / 1000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB"
