"""Other hosts: which there are, and the way to the daemons on them."""
