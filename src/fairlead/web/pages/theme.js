// Runs before anything is drawn: the colours that a person has chosen here, else the system's.
(() => {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // no storage: the system's colours
  }
})();
