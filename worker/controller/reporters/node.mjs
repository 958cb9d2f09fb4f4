// A reporter of `node --test`: it runs in the process that starts one for each file of tests.
import { createRequire } from "node:module";

const report = createRequire(import.meta.url)("./report.cjs");

export default async function* tell(events) {
  report.write("begin", "node");
  const names = []; // of the tests around the one that an event is about, and its own
  let isEmpty = true; // nothing has ended since the last one began
  for await (const { type, data } of events) {
    if (type !== "test:start" && type !== "test:pass" && type !== "test:fail") continue;
    names.length = data.nesting;
    names.push(data.name);
    if (type !== "test:start") {
      const isLeftOut = data.skip !== undefined || data.todo !== undefined;
      const word = isLeftOut ? "skipped" : type === "test:pass" ? "passed" : "failed";
      const isFile = data.nesting === 0 && report.here(data.name) === report.here(data.file); // which is no test
      const isAround = isFile || data.details?.type === "suite";
      if (!isAround || (word === "failed" && isEmpty)) report.test(data.file, isFile ? [] : names, word);
    }
    isEmpty = type === "test:start";
  }
  report.end();
  yield "";
}
