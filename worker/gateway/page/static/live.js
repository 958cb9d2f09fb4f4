// Follows the events of the gateway, and brings the parts of the page that have `data-live` up to date.
// An event says that something happened, or brings the page as it is now: what is shown is always what the server writes.
import { tellTimes } from "./times.js";
import { morph } from "./morph.js";

const SHORTEST_MS = 500; // between two updates
export const SHARE = 4; // an update takes at most one part in so many of the time
const SILENCE_MS = 40_000; // the gateway says something every 15 s
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const TOO_MUCH = 429;

const PAGE = "event: page\ndata: ";
const SILENT = ": still here";

export const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Follows `address`, which `brings` the page or only tells events; `pacedMs` are at least between two updates where they
// cost more than usual: of such a page, which shows more than events tell of, one is made in silence, too. Events are told
// from the position `since` on: that of the page, if it knows it.
export function follow(address, status, { brings, since, pacedMs }) {
  const updates = new Updates(Math.max(SHORTEST_MS, pacedMs));
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
      const headers = since ? { "Last-Event-ID": since } : {};
      const answer = await fetch(address, { headers, signal: AbortSignal.any([signal, silence.signal]) });
      if (answer.status === 401) return location.reload();
      if (answer.status === TOO_MUCH) return TOO_MUCH;
      if (!answer.ok) throw new Error(`${answer.status}`);
      tell("live", "live");
      if (!brings && !since) updates.ask(); // of what happened before
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const events = (text + value).split("\n\n");
        text = events.pop();
        if (since) since = events.join("\n").match(/^id: .+$/gm)?.at(-1).slice("id: ".length) ?? since;
        const last = events.findLast((each) => each.includes("event: "));
        if (last) updates.ask(last.startsWith(PAGE) ? JSON.parse(last.slice(PAGE.length)) : null);
        else if (pacedMs && events.some((each) => each.startsWith(SILENT))) updates.ask();
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async function run(signal) {
    let pause = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      const began = Date.now();
      let isRefused = false;
      try {
        isRefused = (await read(signal)) === TOO_MUCH;
      } catch {
        // told below: the gateway is away, or the page is hidden
      }
      if (signal.aborted) return;
      if (isRefused) tell("refused", "not live: too much at once");
      else tell("away", "reconnecting");
      if (isRefused) pause = LONGEST_PAUSE_MS;
      else pause = Date.now() - began > LONGEST_PAUSE_MS ? FIRST_PAUSE_MS : Math.min(LONGEST_PAUSE_MS, pause * 2);
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
  #page = null; // what was sent of it; otherwise it is asked for
  #runs = false;
  #shortestMs;

  constructor(shortestMs) {
    this.#shortestMs = shortestMs;
  }

  ask(page = null) {
    this.#asked = true;
    this.#page = page;
    if (!this.#runs) this.#run();
  }

  async #run() {
    this.#runs = true;
    while (this.#asked && !document.hidden) {
      this.#asked = false;
      const began = Date.now();
      await update(this.#page).catch(() => {}); // the next event asks again
      await wait(Math.max(this.#shortestMs, (SHARE - 1) * (Date.now() - began)));
    }
    this.#runs = false;
  }
}

async function read() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.status === 401) location.reload();
  else if (answer.redirected) location.replace(answer.url);
  else if (answer.ok) return answer.text();
  return null;
}

async function update(page) {
  const text = page ?? (await read());
  if (text === null) return;
  const now = new DOMParser().parseFromString(text, "text/html");
  tellTimes(now);
  dispatchEvent(new CustomEvent("fresh", { detail: now })); // before it is put in place
  lay(now);
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = now.getElementById(part.id);
    if (fresh) morph(part, fresh);
  }
  addNew(now);
}

// Puts in what the page did not have when it was opened, each part behind the one that it follows.
function addNew(now) {
  let place = null;
  for (const fresh of now.querySelectorAll("main > [data-live]")) {
    const old = document.getElementById(fresh.id);
    if (old) place = old;
    else if (place) {
      place.after(document.adoptNode(fresh));
      place = place.nextElementSibling;
    }
  }
}

// Lays a notice that comes while a page is read over its foot, so that nothing jumps, until its reader does something.
function lay(now) {
  for (const notice of now.querySelectorAll("[data-notice]:not([hidden])")) {
    const old = document.getElementById(notice.id);
    if (!old || old.hidden || old.classList.contains("arrived")) notice.classList.add("arrived");
  }
}

const settle = () => document.querySelectorAll(".arrived").forEach((each) => each.classList.remove("arrived"));
addEventListener("click", settle);
addEventListener("keydown", settle);
