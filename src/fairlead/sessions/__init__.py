"""The model that all kinds of sessions share, and that doors use for what all kinds have."""
