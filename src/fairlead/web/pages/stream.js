// What happens, as it happens: all streams of a page over one WebSocket, of which a browser opens many, while it has
// six other connections to the console for all of its pages. It comes back by itself, later each time.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const SILENCE = 50_000; // the console says something every 15 seconds

let socket = null;
let timer = 0;
let silence = 0;
let wait = FIRST_WAIT;
let numbers = 0;
const streams = new Map(); // number -> stream

function connect() {
  clearTimeout(timer);
  if (socket || !streams.size) return;
  const address = new URL("/api/live", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const mine = new WebSocket(address);
  socket = mine;
  mine.onopen = () => {
    listen();
    for (const stream of streams.values()) follow(stream);
  };
  mine.onmessage = ({ data }) => {
    if (mine !== socket) return;
    listen();
    for (const event of JSON.parse(data)) {
      try {
        streams.get(event.n)?.took(event);
      } catch (error) {
        reportError(error); // the others still count
      }
    }
  };
  mine.onclose = () => mine === socket && lost();
}

// A connection may be gone without a word, as after a laptop has slept.
function listen() {
  clearTimeout(silence);
  silence = setTimeout(lost, SILENCE);
}

function drop() {
  clearTimeout(silence);
  const old = socket;
  socket = null;
  if (old?.readyState === WebSocket.CONNECTING) old.onopen = () => old.close();
  else old?.close();
}

function lost() {
  drop();
  if (streams.size) {
    timer = setTimeout(connect, wait);
    wait = Math.min(LONGEST_WAIT, wait * 1.7);
  }
  for (const stream of [...streams.values()]) stream.lost();
}

function tell(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

const follow = (stream) => tell({ t: "follow", n: stream.number, session: stream.session, since: stream.cursor });

export class Stream {
  // Follows one agent session, or all sessions if none is named. `heard(topic, data)` gets events, `hello(data)` each
  // beginning, `reset()` that events were missed, `lost()` that the server can't be reached, and `refused(message)`
  // that there will be no events. With `isResumed` what happened while the connection was lost comes afterwards, and at
  // first what happened after the cursor `since`.
  constructor(session, { heard, since = "", isResumed = true, hello = () => {}, reset = () => {}, lost = () => {}, refused = () => {} }) {
    Object.assign(this, { session, heard, isResumed, hello, reset, lost, refused });
    this.cursor = since;
    this.number = 0;
    this.isClosed = false;
    this.open();
  }

  open() {
    if (this.isClosed || this.number) return;
    this.number = numbers += 1;
    streams.set(this.number, this);
    connect();
    follow(this);
  }

  took({ event, id, data }) {
    if (event === "hello") {
      wait = FIRST_WAIT;
      if (this.isResumed) this.cursor ||= data.cursor ?? "";
      this.hello(data);
    } else if (event === "refused") {
      this.close();
      this.refused(data.message);
    } else {
      if (id && this.isResumed) this.cursor = id;
      if (event === "reset") this.reset();
      else this.heard(data.topic, data.data);
    }
  }

  // Try now, as somebody looks.
  hurry() {
    wait = FIRST_WAIT;
    this.open();
    connect();
  }

  // Hear nothing until `hurry`.
  pause() {
    if (!this.number) return;
    tell({ t: "leave", n: this.number });
    streams.delete(this.number);
    this.number = 0;
    if (!streams.size) {
      clearTimeout(timer);
      drop();
    }
  }

  close() {
    this.isClosed = true;
    this.pause();
  }
}
