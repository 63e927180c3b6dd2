"""What checks a turn: commands, personas, panels, and the sandbox in which they run."""
