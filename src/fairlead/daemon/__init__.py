"""The composition root: rooms are built here once and joined by what their constructors take."""
