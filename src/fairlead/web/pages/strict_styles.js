// Lets xterm.js work under a policy that allows no inline styles. Its renderer writes `<style>` elements and
// `style` attributes, which the policy refuses; what they say is put here where the policy has no objection, as
// it comes from a script of ours: into constructed style sheets and the element's own style declaration.

class AdoptedStyle extends HTMLElement {
  #sheet = new CSSStyleSheet();

  get textContent() {
    return [...this.#sheet.cssRules].map((rule) => rule.cssText).join("\n");
  }

  set textContent(text) {
    this.#sheet.replaceSync(text);
  }

  connectedCallback() {
    this.hidden = true;
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.#sheet];
  }

  disconnectedCallback() {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== this.#sheet);
  }
}

// Has to be called once, before a terminal is made.
export function install() {
  if (customElements.get("adopted-style")) return;
  customElements.define("adopted-style", AdoptedStyle);
  const make = Document.prototype.createElement;
  document.createElement = (name, options) =>
    make.call(document, String(name).toLowerCase() === "style" ? "adopted-style" : name, options);
  const setAttribute = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style" && this.style) this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}
