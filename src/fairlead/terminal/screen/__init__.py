"""The emulated screen of a terminal session: feeding, keeping, redrawing, reading and drawing it."""
