"""`fairlead acp`: any session that can chat, as an agent of the Agent Client Protocol for editors.

A bridge on standard input and output, as `fairlead rpc` is: sessions outlive the editor, and the bridge
outlives the daemon. From the bottom: `pieces`, `narration` and `state`, what an editor is told of a session;
`blocks`, what it sends; `channel`, a connection to the daemon; `session`, a session of the editor; `agent`,
the loop and the protocol's methods.
"""
