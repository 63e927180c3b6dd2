// What a person has chosen in this browser, where it may be kept.

export function recall(name, otherwise = "") {
  try {
    return localStorage.getItem(name) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // a browser that keeps nothing
  }
}
