// Opens the page for operators in headless Chromium, waits until it has asked twice, and prints what it shows.
import { launch } from "./chromium.mjs";

const browser = await launch();
const faults = [];
try {
  const page = await browser.newPage();
  page.on("requestfailed", (request) => faults.push(`${request.url()}: ${request.failure()?.errorText}`));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  let asked = 0;
  page.on("response", (response) => { if (response.url().endsWith("stats.json")) asked += 1; });
  await page.goto(process.argv[2], { waitUntil: "load", timeout: 60000 });
  await page.waitForFunction(() => document.querySelectorAll("#missing tr").length > 0, null, { timeout: 20000 });
  while (asked < 2) await page.waitForResponse((response) => response.url().endsWith("stats.json"));
  for (const row of await page.$$eval("#missing tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ")))) {
    console.log(row);
  }
  console.log(await page.textContent("#state"));
  if (process.argv[3]) await page.screenshot({ path: process.argv[3], fullPage: true });
} finally {
  await browser.close();
}
for (const fault of faults) console.error(fault);
process.exit(faults.length ? 1 : 0);
