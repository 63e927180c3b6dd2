"""Queries about sessions, in EQL: attributes, the functions that compute them, and their graph."""
