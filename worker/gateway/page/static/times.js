// Writes times in the reader's zone; the title keeps them in UTC.

const today = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const ever = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function tellTimes(root) {
  const now = new Date();
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.getAttribute("datetime"));
    if (Number.isNaN(at.getTime())) continue;
    const format = at.toDateString() === now.toDateString() ? today : at.getFullYear() === now.getFullYear() ? thisYear : ever;
    each.textContent = format.format(at);
  }
}
