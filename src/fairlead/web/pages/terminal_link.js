// The connection of one terminal on the page to its session. It comes back by itself; who had the pen takes it
// again unless somebody else has taken it meanwhile.

const FIRST_WAIT = 300;
const LONGEST_WAIT = 8000;
const ACK_EVERY = 32 * 1024;
const FINAL = new Set([4400, 4401, 4403, 4404]);
const SHORTLY = 30_000; // who is away for longer does not take the pen again: somebody else may write by now
const MOST_KEYS = 32 * 1024;

export class TerminalLink {
  // `on` has output(bytes, written), size(cols, rows), pen({mine, by, may}), link(state, why), ended(code), said(text).
  constructor(id, on) {
    this.id = id;
    this.on = on;
    this.isMine = false;
    this.wantsPen = false;
    this.size = null; // what this page wants while it writes
    this.wait = FIRST_WAIT;
    this.isOver = false;
    this.lostAt = Infinity;
    this.socket = null;
    this.open();
  }

  open() {
    if (this.isOver) return;
    const address = new URL(`/api/terminals/${encodeURIComponent(this.id)}`, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    let owed = 0;
    let fault = "";
    const written = (count) => {
      owed += count;
      if (owed < ACK_EVERY || socket.readyState !== WebSocket.OPEN) return;
      socket.send(JSON.stringify({ t: "ack", bytes: owed }));
      owed = 0;
    };
    socket.onopen = () => {
      this.wait = FIRST_WAIT;
      if (performance.now() - this.lostAt > SHORTLY) this.wantsPen = false;
      this.lostAt = Infinity;
      if (this.wantsPen) this.takePen(this.size);
    };
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      if (data instanceof ArrayBuffer) this.on.output(new Uint8Array(data), written);
      else fault = this.#told(JSON.parse(data)) || fault;
    };
    socket.onclose = ({ code, reason }) => {
      if (socket !== this.socket || this.isOver) return;
      this.isMine = false;
      this.lostAt = Math.min(this.lostAt, performance.now());
      if (FINAL.has(code)) {
        this.isOver = true;
        this.on.link("refused", fault || reason);
        return;
      }
      this.on.link("away", "");
      this.timer = setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(LONGEST_WAIT, this.wait * 1.7);
    };
  }

  #told(message) {
    switch (message.t) {
      case "size":
        this.on.size(message.cols, message.rows);
        break;
      case "pen":
        this.isMine = message.mine;
        if (!message.mine && message.by) this.wantsPen = false; // somebody else has taken it
        this.on.link("here", "");
        this.on.pen(message);
        break;
      case "redraw":
        this.on.redraw?.();
        break;
      case "ended":
        this.isOver = true;
        this.isMine = false;
        this.on.ended(message.code);
        break;
      case "away":
        this.isMine = false;
        this.on.link("daemon-away", "");
        break;
      case "back":
        this.on.link("here", "");
        break;
      case "said":
        this.on.said(message.text);
        break;
      case "error":
        this.on.said(message.message);
        return message.message;
    }
    return "";
  }

  #tell(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  // Returns false if nothing can be typed now.
  type(bytes) {
    if (!this.isMine || this.socket?.readyState !== WebSocket.OPEN) return false;
    for (let at = 0; at < bytes.length; at += MOST_KEYS) this.socket.send(bytes.subarray(at, at + MOST_KEYS));
    return true;
  }

  takePen(size) {
    this.wantsPen = true;
    this.size = size ?? this.size;
    this.#tell({ t: "take-pen", ...(this.size ?? {}) });
  }

  dropPen() {
    this.wantsPen = false;
    this.#tell({ t: "drop-pen" });
  }

  resize(cols, rows) {
    this.size = { cols, rows };
    if (this.isMine) this.#tell({ t: "resize", cols, rows });
  }

  // Try again now, as somebody looks.
  hurry() {
    if (this.isOver || this.socket?.readyState <= WebSocket.OPEN) return;
    clearTimeout(this.timer);
    this.wait = FIRST_WAIT;
    this.open();
  }

  close() {
    this.isOver = true;
    clearTimeout(this.timer);
    if (this.socket?.readyState === WebSocket.CONNECTING) this.socket.onopen = ({ target }) => target.close();
    else this.socket?.close();
  }
}
