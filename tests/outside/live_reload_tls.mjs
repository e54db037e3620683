// A page over HTTP/2, whose requests the server answers at once: URL and folder are the arguments. Fails if the page doesn't
// follow the folder, or asks as often while nothing changes.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./chromium.mjs";

const [url, folder] = process.argv.slice(2);
const save = (text) => writeFileSync(join(folder, "index.html"), `<!doctype html><h1>${text}</h1></body>`);
const timeout = { timeout: 15000 };

const browser = await launch();
try {
  save("first");
  const tab = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
  tab.on("pageerror", (error) => { throw error; });
  await tab.addInitScript(() => {
    window.pauses = [];
    const set = window.setTimeout;
    window.setTimeout = (done, ms) => {
      // The others are timeouts of requests.
      if (ms < 10_000) window.pauses.push(ms);
      return set(done, ms);
    };
  });
  await tab.goto(url, { waitUntil: "load" });
  const shows = (text) => tab.waitForFunction((text) => document.querySelector("h1")?.textContent === text, text, timeout);
  await shows("first");
  const protocols = await tab.evaluate(() => performance.getEntriesByType("resource").map((entry) => entry.nextHopProtocol));
  if (!protocols.includes("h2")) throw new Error(`the protocols are ${protocols}`);

  await tab.waitForFunction(() => window.pauses.at(-1) >= 1000, null, timeout);
  const pauses = await tab.evaluate(() => window.pauses);
  if (pauses.some((pause, index) => pause < 200 || pause < (pauses[index - 1] ?? 0))) throw new Error(`the pauses are ${pauses}`);
  save("second");
  await shows("second");
} finally {
  await browser.close();
}
process.exit(0);
