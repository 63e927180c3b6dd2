"""The servers, one a protocol. Thin: bytes in, wire, call the core, bytes out."""
