// Keeps a page open during deploys: loads it, prints `loaded`, waits for a line of input, then uses the page, its cached
// HTML in a new context, and a fresh copy. Fails if a request fails or a script throws an error.
import { createInterface } from "node:readline";
import { launch, reportFailures } from "./chromium.mjs";

const browser = await launch();
const faults = [];
const url = process.argv[2];

const open = async () => {
  const page = await (await browser.newContext()).newPage();
  reportFailures(page, faults);
  page.on("response", (response) => response.status() >= 400 && faults.push(`${response.url()}: ${response.status()}`));
  page.on("pageerror", (error) => faults.push(error.message));
  return page;
};
// Returns what the page shows: the script's text, the style's color, the image's width, the lazy chunk's text.
const use = async (page) => {
  await page.click("button");
  await page.waitForFunction(() => document.querySelector("#lazy").textContent !== "", null, { timeout: 20000 });
  return page.evaluate(() => [
    document.querySelector("#eager").textContent,
    getComputedStyle(document.body).color,
    document.querySelector("img").naturalWidth,
    document.querySelector("#lazy").textContent,
  ].join(" | "));
};

try {
  const page = await open();
  const html = await (await page.goto(url, { waitUntil: "networkidle", timeout: 60000 })).text();
  console.log("loaded");
  await new Promise((done) => createInterface({ input: process.stdin }).once("line", done));
  console.log(await use(page));
  const cached = await open();
  await cached.route(url, (route) => route.fulfill({ contentType: "text/html", body: html }));
  await cached.goto(url, { waitUntil: "networkidle", timeout: 60000 });
  console.log(await use(cached));
  const fresh = await open();
  await fresh.goto(url, { waitUntil: "networkidle", timeout: 60000 });
  console.log(await use(fresh));
} finally {
  await browser.close();
}
for (const fault of faults) console.error(fault);
process.exit(faults.length ? 1 : 0);
