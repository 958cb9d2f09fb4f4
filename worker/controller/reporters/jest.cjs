// A reporter of jest, which runs in its main process beside the usual one.
"use strict";
const report = require("./report.cjs");

const WORDS = { passed: "passed", failed: "failed", pending: "skipped", skipped: "skipped", todo: "skipped", disabled: "skipped" };

module.exports = class {
  onRunStart() {
    report.write("begin", "jest");
  }

  onTestResult(_, result) {
    for (const each of result.testResults)
      report.test(result.testFilePath, [...each.ancestorTitles, each.title], WORDS[each.status] ?? "failed");
    if (result.testExecError || (result.failureMessage && !result.testResults.length))
      report.test(result.testFilePath, [], "failed");
  }

  onRunComplete(_, results) {
    if (results.wasInterrupted) return;
    report.end();
  }
};
