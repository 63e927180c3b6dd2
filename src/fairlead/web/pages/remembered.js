// What a person has chosen in this browser, where it may be kept.

export function recall(name, otherwise = "") {
  try {
    return localStorage.getItem(name) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// What is being written to a session, until it is sent: a browser may drop a page in the background and fetch it again.
export function draft(id) {
  try {
    return sessionStorage.getItem(`draft ${id}`) ?? "";
  } catch {
    return "";
  }
}

export function keepDraft(id, text) {
  try {
    if (text) sessionStorage.setItem(`draft ${id}`, text);
    else sessionStorage.removeItem(`draft ${id}`);
  } catch {
    // a browser that keeps nothing, or has no room
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // a browser that keeps nothing
  }
}
