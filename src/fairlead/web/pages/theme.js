// Runs before anything is drawn: the colours that a person has chosen here, else the system's, also when those change.
(() => {
  const light = matchMedia("(prefers-color-scheme: light)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("theme");
    } catch {
      // no storage: the system's colours
    }
    document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : light.matches ? "light" : "dark";
    dispatchEvent(new Event("theme"));
  };
  light.addEventListener("change", apply);
  apply();
})();
