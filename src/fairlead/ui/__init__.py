"""What draws in a terminal: attach, the player and the chat, with the keys and the terminal below them."""
