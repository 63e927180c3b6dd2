"""The control room: what is heard, what is thought of it, who judges it, and what is done."""
