// Exchanges the ticket of a link for a cookie. The ticket leaves the address bar and the history at once.

import { posted } from "./api.js";
import { visible } from "./words.js";

const AGAIN = 1000;

const said = document.getElementById("said");
const code = document.getElementById("code");
const ticket = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, "", location.pathname);

let proof; // what the console gave this browser while it waits to be let in

async function enter() {
  let answer;
  try {
    answer = await posted("/in", { ticket, proof });
  } catch (refused) {
    said.textContent = visible(refused.message);
    if (refused.isAway) setTimeout(enter, AGAIN);
    else code.hidden = true;
    return;
  }
  if (answer.data.wait) {
    said.textContent = "Somebody has to let this browser in: confirm this code with `fairlead web` or in the console under Health.";
    code.textContent = visible(answer.data.code);
    code.hidden = false;
    proof = answer.data.proof;
    setTimeout(enter, AGAIN);
    return;
  }
  const to = String(answer.data.to ?? "/");
  location.replace(to.startsWith("/") && !to.startsWith("//") ? to : "/");
}

if (ticket) {
  said.textContent = "Coming in…";
  enter();
} else {
  said.textContent = "This link has no ticket. Run `fairlead web` on your machine for a new one.";
}
