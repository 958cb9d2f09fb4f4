// Keys of the list of plans, for those whose focus is in no field; /help names them.
const FIELDS = "input:not([type=checkbox]), textarea, select";

export function listenForKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(FIELDS)) return;
    const act = ACTS[event.key];
    if (act?.()) event.preventDefault();
  });
}

function move(by) {
  const links = [...document.querySelectorAll(".plans td.goal a")];
  if (!links.length) return false;
  const here = links.indexOf(row()?.querySelector("td.goal a"));
  links[Math.max(0, Math.min(links.length - 1, here + by))].focus();
  return true;
}

function row() {
  return document.activeElement?.closest(".plans tbody tr");
}

function select() {
  const box = row()?.querySelector("[form=selected]");
  box?.click();
  return Boolean(box);
}

function search() {
  const field = document.getElementById("find");
  field?.focus();
  return Boolean(field);
}

function help() {
  location.assign("/help");
  return true;
}

const ACTS = { j: () => move(1), k: () => move(-1), x: select, "/": search, "?": help };
