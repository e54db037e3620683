// Loads pages in headless Chromium, and prints a line for each. Fails if a request fails or a script throws an error.
import { launch, reportFailures } from "./chromium.mjs";

const browser = await launch();
const faults = [];
try {
  for (const url of process.argv.slice(2)) {
    const page = await browser.newPage();
    reportFailures(page, faults);
    page.on("response", (response) => response.status() >= 400 && faults.push(`${response.url()}: ${response.status()}`));
    page.on("pageerror", (error) => faults.push(`${url}: ${error.message}`));
    await page.goto(url, { waitUntil: "networkidle", timeout: 60000 });
    const title = await page.title();
    if (!title) faults.push(`${url}: no title`);
    console.log(`loaded ${url} ${title}`);
    await page.close();
  }
} finally {
  await browser.close();
}
for (const fault of faults) console.error(fault);
process.exit(faults.length ? 1 : 0);
