"""What the operating system has: processes, sockets and files, each in one place."""
