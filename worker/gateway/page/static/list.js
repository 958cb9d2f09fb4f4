// Goes on with the list of plans where its reader comes to its end, and keeps up to date what is seen of it.
// Without this, and with the link "Older plans", it is read page by page.
import { SHARE, wait } from "./live.js";
import { morph } from "./morph.js";
import { tellTimes } from "./times.js";

const AHEAD = "2000px"; // of the end, from where on more is asked for
const AT_ONCE = 100;
const MOST_PUSHED = 500; // what one page of the list may have
const ANEW_MS = 5000; // between two times that what is seen is read anew

export function goOn(older) {
  const list = document.getElementById("list");
  const more = document.getElementById("more");
  const shown = document.getElementById("shown");
  const seen = new Set(); // the chunks that are on the screen
  let chunks = 0; // that there ever were
  let isNear = false;
  let isAsking = false;
  let isStale = false; // something has happened since what is seen was read
  let isReadAnew = false;

  const watch = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) {
      if (isIntersecting) seen.add(target);
      else seen.delete(target);
    }
  });
  new IntersectionObserver(
    (changes) => {
      isNear = changes.at(-1).isIntersecting;
      if (isNear) readOn();
    },
    { rootMargin: AHEAD },
  ).observe(more);

  more.addEventListener("click", (event) => {
    const link = event.target.closest('a[rel="next"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    readOn().then((chunk) => chunk?.querySelector("td a")?.focus());
  });

  async function readOn() {
    let first = null;
    while (!isAsking) {
      const link = more.querySelector('a[rel="next"]');
      if (!link) break;
      isAsking = true;
      try {
        const address = new URL(link.href);
        address.searchParams.set("limit", AT_ONCE);
        const page = await read(address);
        if (!page || !link.isConnected) break;
        delete more.dataset.live; // from now on it is ours
        more.replaceChildren(...page.getElementById("more").childNodes);
        const rows = page.querySelector("#list table");
        const chunk = rows && add(rows, address, null);
        first ??= chunk;
        shown.textContent = `${document.querySelectorAll(".plans tbody tr").length} plans are shown`;
      } finally {
        isAsking = false;
      }
      if (!isNear) break;
    }
    return first;
  }

  function add(table, address, before) {
    const chunk = document.createElement("section");
    chunk.className = "chunk";
    chunk.setAttribute("aria-label", `Older plans, part ${++chunks}`);
    chunk.append(table);
    chunk.dataset.from = address;
    older.insertBefore(chunk, before);
    watch.observe(chunk);
    return chunk;
  }

  // Keeps the rows that newer plans push out of the first page, if what follows them is shown.
  addEventListener("fresh", ({ detail: page }) => {
    if (!older.firstChild) return;
    if (new URLSearchParams(location.search).has("sort")) return begin(page); // its rows have no places by their times
    const rows = [...list.querySelectorAll("tbody tr")];
    const last = [...page.querySelectorAll("#list tbody tr")].at(-1);
    const place = last ? rows.findIndex((row) => row.id === last.id) : -1;
    const pushed = older.querySelector(".pushed");
    const kept = pushed ? pushed.querySelectorAll("tbody tr").length : 0;
    if (place < 0 || kept + rows.length > MOST_PUSHED) return begin(page);
    const gone = rows.slice(place + 1);
    if (!gone.length) return;
    const at = Date.parse(last.querySelector("time").getAttribute("datetime"));
    const address = new URL(location.href);
    address.searchParams.set("cursor", `${at}.${last.id}`);
    address.searchParams.set("limit", kept + gone.length);
    const chunk = pushed ?? add(list.querySelector("table").cloneNode(true), address, older.firstChild);
    const body = chunk.querySelector("tbody");
    if (!pushed) body.replaceChildren();
    chunk.classList.add("pushed");
    chunk.dataset.from = address;
    body.prepend(...gone);
  });

  // So many plans are new that the list begins anew.
  function begin(page) {
    older.replaceChildren();
    seen.clear();
    more.replaceChildren(...page.getElementById("more").cloneNode(true).childNodes);
    more.dataset.live = "";
  }

  // Reads what is seen of the list anew once something has happened: one part after the other, and none while others run.
  addEventListener("fresh", async () => {
    isStale = true;
    if (isReadAnew) return;
    isReadAnew = true;
    while (isStale && !document.hidden) {
      isStale = false;
      const began = Date.now();
      for (const chunk of [...seen]) {
        const { from } = chunk.dataset;
        const table = (await read(from))?.querySelector("#list table");
        if (chunk.dataset.from !== from) isStale = true; // rows were pushed into it meanwhile
        else if (table && chunk.isConnected) morph(chunk.querySelector("table"), table);
      }
      if (seen.size) await wait(Math.max(ANEW_MS, (SHARE - 1) * (Date.now() - began)));
    }
    isReadAnew = false;
  });
}

async function read(address) {
  const answer = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => null);
  const text = answer?.ok ? await answer.text().catch(() => null) : null; // it may break off in the middle
  if (text === null) return null;
  const page = new DOMParser().parseFromString(text, "text/html");
  tellTimes(page);
  return page;
}
