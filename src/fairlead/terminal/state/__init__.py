"""The state of the program in a terminal session: what is seen, and what follows from it."""
