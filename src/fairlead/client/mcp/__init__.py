"""`fairlead mcp`: an MCP server on standard input and output, for agents that work beside each other."""
