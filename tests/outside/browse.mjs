// Loads pages in headless Chromium; fails if any request fails or a script errs. Prints a line for each page.
import { createRequire } from "node:module";
import { resolve } from "node:path";

const modules = resolve(process.env.CANNERY_NPM ?? "target/outside/npm");
const { chromium } = createRequire(modules + "/")("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.CANNERY_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const faults = [];
try {
  for (const url of process.argv.slice(2)) {
    const page = await browser.newPage();
    page.on("requestfailed", (request) => faults.push(`${request.url()}: ${request.failure()?.errorText}`));
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
