// Nothing is kept yet.
