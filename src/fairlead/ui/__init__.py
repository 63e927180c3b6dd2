"""What draws in a terminal: a session that is shared, a recording, a chat; keys and the terminal itself."""
