// Opens the admin page in headless Chromium, waits until it has loaded the statistics twice, and prints its tables of routes,
// missing paths and certificates.
import { launch, reportFailures } from "./chromium.mjs";

const browser = await launch();
const faults = [];
try {
  const page = await browser.newPage();
  reportFailures(page, faults);
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  let updates = 0;
  page.on("response", (response) => { if (response.url().endsWith("stats.json")) updates += 1; });
  await page.goto(process.argv[2], { waitUntil: "load", timeout: 60000 });
  await page.waitForFunction(() => document.querySelectorAll("#missing tr").length > 0, null, { timeout: 20000 });
  while (updates < 2) await page.waitForResponse((response) => response.url().endsWith("stats.json"));
  const rows = "#routes tr, #missing tr, #certificates tr";
  for (const row of await page.$$eval(rows, (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ")))) {
    console.log(row);
  }
  console.log(await page.textContent("#state"));
  if (process.argv[3]) await page.screenshot({ path: process.argv[3], fullPage: true });
} finally {
  await browser.close();
}
for (const fault of faults) console.error(fault);
process.exit(faults.length ? 1 : 0);
