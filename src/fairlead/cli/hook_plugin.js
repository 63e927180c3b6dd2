// added by `fairlead hook --install opencode`; `fairlead hook --uninstall opencode` removes it
import { spawn } from "node:child_process"

const command = COMMAND
const MOST_WAITING = 100

export const Fairlead = async ({ client }) => {
  if (!process.env.FAIRLEAD_SESSION) return {}
  const subagents = new Set()
  const asking = new Map()
  let waiting = 0
  let last = Promise.resolve()

  // calls the hook, and resolves to what it prints
  const call = (said, begun) =>
    new Promise((done) => {
      let printed = ""
      try {
        const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
        begun?.(child)
        child.on("error", () => done(""))
        child.on("close", () => done(printed))
        child.stdout.on("data", (data) => (printed += data))
        child.stdin.on("error", () => {})
        child.stdin.end(JSON.stringify(said))
      } catch {
        done("")
      }
    })
  const named = (name, said) => ({
    ...said,
    hook_event_name: name,
    ...(subagents.has(said.sessionID) ? { agent_type: "task", agent_id: said.sessionID } : {}),
  })
  // one after the other: the last one says what holds
  const tell = (name, said) => {
    if (waiting >= MOST_WAITING) return
    waiting++
    last = last.then(() => call(named(name, said))).then(() => void waiting--)
  }
  const ask = async (request) => {
    await last
    const printed = await call(named("permission.asked", request), (child) => asking.set(request.id, child))
    const isOpen = asking.delete(request.id)
    if (!printed || !isOpen) return
    const { reply } = JSON.parse(printed)
    await client.postSessionIdPermissionsPermissionId({
      path: { id: request.sessionID, permissionID: request.id },
      body: { response: reply },
    })
  }

  return {
    event: async ({ event }) => {
      const said = event.properties
      if (event.type === "session.created" && said.info?.parentID) subagents.add(said.info.id)
      if (event.type === "permission.asked") ask(said).catch(() => {})
      if (event.type === "permission.replied") {
        const child = asking.get(said.requestID)
        asking.delete(said.requestID)
        child?.kill()
        tell(event.type, said)
      }
      if (event.type === "session.idle") tell(event.type, said)
      if (event.type === "session.error")
        tell(event.type, { sessionID: said.sessionID, message: String(said.error?.data?.message ?? said.error?.name) })
    },
    "chat.message": async (input, output) => {
      const texts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      tell("chat.message", { sessionID: input.sessionID, prompt: texts.map((part) => part.text).join("\n") })
    },
    "tool.execute.before": async (input) => tell("tool.execute.before", input),
    "tool.execute.after": async ({ tool, sessionID, callID }) =>
      tell("tool.execute.after", { tool, sessionID, callID }),
  }
}
