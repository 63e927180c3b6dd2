"""The handlers of rpc-edn's ops, by what they reach."""
