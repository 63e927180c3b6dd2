"""Wire protocols: bytes to messages and back, with their rules and without I/O."""
