// Server-sent events that come back by themselves. The browser's own EventSource gives up for good at an HTTP
// error, as when a console restarts behind a proxy; here it is tried again, later each time, until `close`.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

export class Stream {
  // `path()` is asked before each attempt, so that it can hold the last cursor. `heard(topic, data)` gets events,
  // `hello(data)` each beginning, `reset()` that events were missed, `lost()` that the server can't be reached, and
  // `refused(message)` that there will be no events.
  constructor(path, { heard, hello = () => {}, reset = () => {}, lost = () => {}, refused = () => {} }) {
    Object.assign(this, { path, heard, hello, reset, lost, refused });
    this.cursor = "";
    this.wait = FIRST_WAIT;
    this.timer = 0;
    this.source = null;
    this.isClosed = false;
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    if (this.isClosed || this.source) return;
    const source = new EventSource(this.path(this.cursor));
    this.source = source;
    source.addEventListener("hello", (event) => {
      this.wait = FIRST_WAIT;
      const data = JSON.parse(event.data);
      this.cursor ||= data.cursor ?? "";
      this.hello(data);
    });
    source.addEventListener("reset", (event) => {
      this.cursor = event.lastEventId || "";
      this.reset();
    });
    source.addEventListener("refused", (event) => {
      this.close();
      this.refused(JSON.parse(event.data).message);
    });
    source.onmessage = (event) => {
      if (event.lastEventId) this.cursor = event.lastEventId;
      const { topic, data } = JSON.parse(event.data);
      this.heard(topic, data);
    };
    source.onerror = () => {
      if (this.source !== source) return;
      this.pause();
      this.lost();
      if (this.isClosed) return;
      this.timer = setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(LONGEST_WAIT, this.wait * 1.7);
    };
  }

  // Try now, as somebody looks.
  hurry() {
    this.wait = FIRST_WAIT;
    this.open();
  }

  // Leave the connection to others until `open`: a browser has six for all pages of the console.
  pause() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  close() {
    this.isClosed = true;
    this.pause();
  }
}
