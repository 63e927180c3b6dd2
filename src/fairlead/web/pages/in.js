// Exchanges the ticket in the link's fragment for a cookie. The fragment is removed first.
const ticket = location.hash.slice(1);
history.replaceState(null, "", "/in");
const said = document.getElementById("said");

async function comeIn() {
  const answer = await fetch("/in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ticket }),
  });
  const { data, error } = await answer.json();
  if (answer.status === 202) {
    said.textContent = `Confirm the code ${data.code} on the laptop.`;
    setTimeout(comeIn, 1000);
  } else if (answer.ok) {
    location.replace(data.to);
  } else {
    said.textContent = error.message;
  }
}

comeIn();
