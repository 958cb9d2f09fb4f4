// Follows the events of the gateway, and brings the parts of the page that have `data-live` up to date.
// An event only says that something happened: what the page shows is always what the server writes.
import { tellTimes } from "./times.js";
import { morph } from "./morph.js";

const SHORTEST_MS = 500; // between two updates
const SHARE = 4; // an update takes at most one part in so many of the time
const SILENCE_MS = 40_000; // the gateway says something every 15 s
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Follows `address`; `shortestMs` are at least between two updates where they cost more than usual.
export function follow(address, status, shortestMs) {
  const updates = new Updates(Math.max(SHORTEST_MS, shortestMs));
  let stream = null;

  const tell = (state, text) => {
    if (!status || status.dataset.state === state) return;
    status.dataset.state = state;
    status.textContent = text;
    status.hidden = false;
  };

  async function read(signal) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const answer = await fetch(address, { signal: AbortSignal.any([signal, silence.signal]) });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(`${answer.status}`);
      tell("live", "live");
      updates.ask(); // of what happened before
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        if (value.includes("event:")) updates.ask();
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async function run(signal) {
    let pause = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      const began = Date.now();
      try {
        await read(signal);
      } catch {
        // told below: the gateway is away, or the page is hidden
      }
      if (signal.aborted) return;
      tell("away", "reconnecting");
      pause = Date.now() - began > LONGEST_PAUSE_MS ? FIRST_PAUSE_MS : Math.min(LONGEST_PAUSE_MS, pause * 2);
      await wait(pause * (0.5 + Math.random() / 2));
    }
  }

  const turn = () => {
    stream?.abort();
    stream = null;
    if (document.hidden) return tell("paused", "paused");
    stream = new AbortController();
    run(stream.signal);
  };
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", () => stream?.abort());
  turn();
}

// Updates of the page, one at a time, however often they are asked for.
class Updates {
  #asked = false;
  #runs = false;
  #shortestMs;

  constructor(shortestMs) {
    this.#shortestMs = shortestMs;
  }

  ask() {
    this.#asked = true;
    if (!this.#runs) this.#run();
  }

  async #run() {
    this.#runs = true;
    while (this.#asked && !document.hidden) {
      this.#asked = false;
      const began = Date.now();
      await update().catch(() => {}); // the next event asks again
      await wait(Math.max(this.#shortestMs, (SHARE - 1) * (Date.now() - began)));
    }
    this.#runs = false;
  }
}

async function update() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.status === 401) return location.reload();
  if (!answer.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html");
  tellTimes(now);
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = now.getElementById(part.id);
    if (fresh) morph(part, fresh);
  }
}
