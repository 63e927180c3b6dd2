"""Tests. They mirror src/fairlead, one directory a room."""
