// Headless Chromium, without the background services that connect to other servers.
import { createRequire } from "node:module";
import { resolve } from "node:path";

const modules = resolve(process.env.CANNERY_NPM ?? "target/outside/npm");
const { chromium } = createRequire(modules + "/")("playwright-core");

export const launch = (protocols = ["--disable-quic"]) => chromium.launch({
  executablePath: process.env.CANNERY_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", ...protocols, "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});

// Adds requests of a page that have failed to the faults. A busy browser may begin a request so late that it leaves the page, and ends
// the request by itself; a response that ends too early has another error.
export function reportFailures(page, faults) {
  page.on("requestfailed", (request) => {
    const why = request.failure()?.errorText;
    if (why !== "net::ERR_ABORTED") faults.push(`${request.url()}: ${why}`);
  });
}
