// What a page does beyond its HTML: times in the reader's zone, and the page anew when something happens.
// Every page can be read and used without this.
import { checkFiles } from "./forms.js";
import { listenForKeys } from "./keys.js";
import { follow } from "./live.js";
import { goOn } from "./list.js";
import { tellTimes } from "./times.js";

tellTimes(document);
checkFiles(document);
listenForKeys();
const older = document.getElementById("older");
if (older) goOn(older);
const { events, pages, since, updateMs } = document.body.dataset;
const status = document.querySelector(".stream");
if (events ?? pages) follow(events ?? pages, status, { brings: Boolean(pages), since, pacedMs: Number(updateMs ?? 0) });
