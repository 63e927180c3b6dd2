"""Text formats: text to values and back. Imports nothing else of Fairlead."""
