// The list of sessions.
const main = document.getElementById("main");
const answer = await fetch("/api/ops/session_list", {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: "{}",
});
const { ok, data, error } = await answer.json();
const list = document.createElement("ul");
for (const row of ok ? data.sessions : []) {
  const item = document.createElement("li");
  item.textContent = `${row.name} (${row.kind})`;
  list.append(item);
}
main.append(ok ? list : error.message);
