"""rpc-edn: the server on the control socket, its ops, and what clients are told."""
