// Writes the lines of a report beside this file; the token that ends it is read and removed before any test runs.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { fileURLToPath } = require("node:url");

const token = fs.readFileSync(path.join(__dirname, "token"), "utf8");
fs.unlinkSync(path.join(__dirname, "token"));
const file = fs.openSync(path.join(__dirname, "report"), "a");

const write = (...line) => fs.writeSync(file, JSON.stringify(line) + "\n");
const here = (place) => {
  if (!place) return "";
  const found = place.startsWith("file:") ? fileURLToPath(place) : place;
  return path.relative(process.cwd(), found).split(path.sep).join("/");
};
const test = (place, names, word) => {
  const name = [here(place), ...names].filter(Boolean).join(" > ");
  write("collected", name);
  write("test", name, word);
};
const end = () => write("end", token);

module.exports = { write, here, test, end };
