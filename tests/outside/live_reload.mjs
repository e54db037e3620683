// A person's browser while a folder is edited: URL and folder are the arguments. Prints `restart` when the server is to be
// replaced by another at the same address, and waits for a line of input. Fails if a page doesn't follow.
import { writeFileSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { launch } from "./chromium.mjs";

const [url, folder] = process.argv.slice(2);
const input = createInterface({ input: process.stdin });
const save = (name, content) => writeFileSync(join(folder, name), content);
const page = (text) => `<!doctype html><link rel=stylesheet href=/a.css><title>a</title><h1>${text}</h1>
<div style="height: 5000px"></div></body>`;

const browser = await launch();
try {
  save("index.html", page("first"));
  save("a.css", "h1 { color: rgb(1, 1, 1) }");
  const tabs = [];
  for (let number = 0; number < 2; number++) {
    const tab = await (await browser.newContext({ viewport: { width: 800, height: 600 } })).newPage();
    tab.on("pageerror", (error) => { throw error; });
    await tab.goto(url, { waitUntil: "load" });
    tabs.push(tab);
  }
  const each = (action) => Promise.all(tabs.map(action));
  const shows = (text) => each((tab) => tab.waitForFunction(
    (text) => document.querySelector("h1")?.textContent === text, text, { timeout: 15000 }));
  const overlay = (text) => each((tab) => tab.waitForFunction(
    (text) => (document.querySelector("cannery-overlay")?.textContent ?? "").includes(text), text, { timeout: 15000 }));
  const noOverlay = () => each((tab) => tab.waitForFunction(
    () => !document.querySelector("cannery-overlay"), null, { timeout: 15000 }));

  await shows("first");
  await each((tab) => tab.evaluate(() => scrollTo(0, 1234)));
  save("index.html", page("second"));
  await shows("second");
  await each((tab) => tab.waitForFunction(() => scrollY === 1234, null, { timeout: 15000 }));

  // Style sheets are exchanged without a reload, which would remove the mark.
  await each((tab) => tab.evaluate(() => { window.mark = true; }));
  save("a.css", "h1 { color: rgb(2, 2, 2) }");
  await each((tab) => tab.waitForFunction(
    () => getComputedStyle(document.querySelector("h1")).color === "rgb(2, 2, 2)", null, { timeout: 15000 }));
  await each(async (tab) => {
    if (!await tab.evaluate(() => window.mark)) throw new Error("the page was reloaded for a style sheet");
  });

  save("_headers", "/*\n  Basic-Auth: a:b\n");
  await overlay("_headers:2");
  // A page that is loaded meanwhile shows the failure too, and the last version of the site.
  await tabs[0].goto(url, { waitUntil: "load" });
  await overlay("_headers:2");
  await shows("second");
  rmSync(join(folder, "_headers"));
  await noOverlay();

  console.log("restart");
  await new Promise((done) => input.once("line", done));
  save("index.html", page("third"));
  await shows("third");
  save("index.html", page("fourth"));
  await shows("fourth");
} finally {
  await browser.close();
}
process.exit(0);
