// How a terminal looks on a page, live or played: its font, its colours, and who draws it.

import { recall } from "./remembered.js";

export const FONT = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

// The graphics card draws, where there is one; else the page itself.
export async function drawOnGraphics(terminal) {
  if (recall("renderer") === "dom" || !hasGraphics()) return;
  try {
    const { WebglAddon } = await import("./vendor/addon-webgl/addon-webgl.mjs");
    const graphics = new WebglAddon();
    graphics.onContextLoss(() => graphics.dispose());
    terminal.loadAddon(graphics);
  } catch {
    // the page's own renderer goes on
  }
}

function hasGraphics() {
  const context = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return context !== null;
}

export function theme() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  const isLight = style.colorScheme.trim() === "light";
  return {
    background: value("--term-paper"),
    foreground: value("--term-ink"),
    cursor: value("--term-cursor"),
    cursorAccent: value("--term-paper"),
    selectionBackground: value("--term-selection"),
    ...(isLight ? LIGHT : DARK),
  };
}

const DARK = { black: "#2a2f38", red: "#ef7178", green: "#8ccf7e", yellow: "#e5c76b", blue: "#67b0e8", magenta: "#c47fd5", cyan: "#6cbfbf", white: "#c9d1d9", brightBlack: "#767f8d", brightRed: "#ff8f95", brightGreen: "#a6e398", brightYellow: "#f4d67a", brightBlue: "#8cc8f5", brightMagenta: "#da9ce8", brightCyan: "#86d8d8", brightWhite: "#f0f3f6" };
const LIGHT = { black: "#24292f", red: "#b8232f", green: "#11692b", yellow: "#7a5500", blue: "#0757b8", magenta: "#7a3aa8", cyan: "#0d6672", white: "#57606a", brightBlack: "#59636e", brightRed: "#a40e26", brightGreen: "#0f6b2f", brightYellow: "#6a4b00", brightBlue: "#0550ae", brightMagenta: "#6930a0", brightCyan: "#0a5c68", brightWhite: "#3b434b" };
