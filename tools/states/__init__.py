"""Recordings of agents' screens with labels: who makes them, and who reads them."""
