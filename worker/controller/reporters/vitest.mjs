// A reporter of vitest 1 to 5, which runs in its main process beside the usual one.
import { createRequire } from "node:module";

const report = createRequire(import.meta.url)("./report.cjs");
const WORDS = { pass: "passed", passed: "passed", fail: "failed", failed: "failed" };

export default class {
  #ended = false;

  onInit() {
    report.write("begin", "vitest");
  }

  onFinished(files = [], errors = []) {
    if (this.#ended) return;
    for (const file of files) {
      if (file.result?.state === "fail" && !file.tasks.length) report.test(file.filepath, [], "failed");
      walk(file.filepath, file.tasks, []);
    }
    this.#end(errors);
  }

  onTestRunEnd(modules = [], errors = [], reason = "") {
    if (this.#ended || reason === "interrupted") return;
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      if (module.state() === "failed" && !tests.length) report.test(module.moduleId, [], "failed");
      for (const test of tests) {
        const word = WORDS[test.result()?.state] ?? "skipped";
        report.test(module.moduleId, [test.fullName], test.options?.fails && word === "passed" ? "xfailed" : word);
      }
    }
    this.#end(errors);
  }

  #end(errors) {
    this.#ended = true;
    for (const error of errors) report.test("", ["unhandled error", String(error?.message ?? "")], "failed");
    report.end();
  }
}

function walk(place, tasks, above) {
  for (const task of tasks) {
    const names = [...above, task.name];
    if (task.tasks) walk(place, task.tasks, names);
    else {
      const word = WORDS[task.result?.state] ?? "skipped";
      report.test(place, names, task.fails && word === "passed" ? "xfailed" : word);
    }
  }
}
