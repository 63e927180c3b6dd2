"""The fleet: a process of its own that joins this machine's daemon to others over NATS."""
