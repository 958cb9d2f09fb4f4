// A reporter of mocha: the usual one, which also writes what became of each test.
"use strict";
const { createRequire } = require("node:module");
const report = require("./report.cjs");

const mocha = createRequire(process.cwd() + "/package.json")("mocha");

module.exports = class extends mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const tell = (word) => (test) => report.test(test.file, test.titlePath(), word);
    report.write("begin", "mocha");
    runner.once("start", () => report.write("total", runner.total)); // of the tests that --grep leaves
    runner.on("pass", tell("passed"));
    runner.on("fail", tell("failed"));
    runner.on("pending", tell("skipped"));
    runner.once("end", () => report.end());
  }
};
