// Writes times in the reader's zone; the title keeps them in UTC.

const today = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const ever = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function tellTimes(root) {
  const now = new Date();
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.getAttribute("datetime"));
    if (Number.isNaN(at.getTime())) continue;
    if ("age" in each.dataset) {
      each.textContent = ageOf((now - at) / 1000);
      continue;
    }
    const format = at.toDateString() === now.toDateString() ? today : at.getFullYear() === now.getFullYear() ? thisYear : ever;
    each.textContent = format.format(at);
  }
}

const UNITS = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];

function ageOf(seconds) {
  const [unit, length] = UNITS.find(([, each]) => seconds >= each) ?? UNITS.at(-1);
  return `${Math.max(0, Math.floor(seconds / length))} ${unit}`;
}
