// Pictures that go with a prompt: chosen, pasted or dropped where the prompt is typed.

import { button, el, fill } from "./dom.js";
import { note } from "./notices.js";
import { bytes, visible } from "./words.js";

const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST = 8;
const LARGEST = 5 * 1024 * 1024;
const LARGEST_OF_ALL = 5.5 * 1024 * 1024; // a request may have 8 MiB, and base64 makes a third more of them

export class Pictures {
  node = el("div.pictures", { hidden: true });
  #chosen = []; // {name, mime_type, data, size, address}
  #file = el("input", { type: "file", accept: KINDS.join(","), multiple: true, hidden: true, "aria-hidden": "true", tabindex: "-1", onchange: () => this.#took([...this.#file.files]) });
  button = el("span.picture-button", this.#file, button("+", () => this.#file.click(), { class: "quiet", "aria-label": "Add a picture", title: "Add a picture; it can also be pasted or dropped here" }));

  constructor(area) {
    area.addEventListener("paste", (event) => this.#from(event, event.clipboardData));
    area.addEventListener("drop", (event) => this.#from(event, event.dataTransfer));
    area.addEventListener("dragover", (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
  }

  // As ops take them.
  get given() {
    return this.#chosen.map(({ mime_type, data }) => ({ mime_type, data }));
  }

  clear() {
    for (const each of this.#chosen) URL.revokeObjectURL(each.address);
    this.#chosen = [];
    this.#draw();
  }

  #from(event, data) {
    const files = [...(data?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.#took(files);
  }

  async #took(files) {
    this.#file.value = "";
    for (const file of files) {
      const all = this.#chosen.reduce((sum, each) => sum + each.size, file.size);
      if (!KINDS.includes(file.type)) note(`${visible(file.name)} is not a PNG, JPEG, GIF or WebP.`, "warning");
      else if (file.size > LARGEST || all > LARGEST_OF_ALL) note(`${visible(file.name)} has ${bytes(file.size)}: that is too much for a prompt.`, "warning");
      else if (this.#chosen.length >= MOST) note(`At most ${MOST} pictures go with a prompt.`, "warning");
      else this.#chosen.push({ name: file.name, mime_type: file.type, size: file.size, data: encoded(new Uint8Array(await file.arrayBuffer())), address: URL.createObjectURL(file) });
    }
    this.#draw();
  }

  #draw() {
    this.node.hidden = !this.#chosen.length;
    fill(
      this.node,
      this.#chosen.map((each) =>
        el("span.picture", el("img", { src: each.address, alt: visible(each.name) }), button("✕", () => this.#drop(each), { class: "quiet", "aria-label": `Leave out ${visible(each.name)}` })),
      ),
    );
  }

  #drop(chosen) {
    URL.revokeObjectURL(chosen.address);
    this.#chosen = this.#chosen.filter((each) => each !== chosen);
    this.#draw();
  }
}

function encoded(data) {
  const parts = [];
  for (let at = 0; at < data.length; at += 0x8000) parts.push(String.fromCharCode(...data.subarray(at, at + 0x8000)));
  return btoa(parts.join(""));
}
