// What a page does beyond its HTML: times in the reader's zone, and the page anew when something happens.
// Every page can be read and used without this.
import { follow } from "./live.js";
import { tellTimes } from "./times.js";

tellTimes(document);
const { events, updateMs } = document.body.dataset;
if (events) follow(events, document.querySelector(".stream"), Number(updateMs ?? 0));
