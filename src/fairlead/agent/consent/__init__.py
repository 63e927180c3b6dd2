"""What an agent's tools may do, and what a person is asked: commands are taken apart, rules applied."""
