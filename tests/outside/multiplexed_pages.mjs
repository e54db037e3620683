// Opens pages over HTTP/2 or HTTP/3 in headless Chromium, then has the last page fetch each target, and compares the digests of
// the bytes with those of the file. Fails if a request fails or uses another protocol, or if a script throws an error.
// Usage: multiplexed_pages.mjs PROTOCOL ORIGIN LIST PATH... PROTOCOL is `h2`, or `h3:ADDRESS` with an address at which the
// same certificate is served over TCP.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:tls";
import { launch, reportFailures } from "./chromium.mjs";

const [wanted, origin, list, ...paths] = process.argv.slice(2);
const [protocol, host, port] = wanted.split(":");

// Returns the flags for HTTP/3 from the first request on. Chromium accepts no certificate over QUIC that it doesn't trust,
// except by the digest of its key.
async function forcedQuic() {
  const socket = connect({ host, port, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const key = socket.getPeerX509Certificate().publicKey.export({ type: "spki", format: "der" });
  socket.destroy();
  const digest = createHash("sha256").update(key).digest("base64");
  return [`--origin-to-force-quic-on=${new URL(origin).host}`, `--ignore-certificate-errors-spki-list=${digest}`];
}

const lines = readFileSync(list, "utf8").split("\n").filter(Boolean).map((line) => line.split("\t"));
const faults = [];
const protocols = {};
const browser = await (protocol === "h3" ? launch(await forcedQuic()) : launch());
try {
  // The server signed its own certificate.
  const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  network.on("Network.responseReceived", ({ response }) => {
    protocols[response.protocol] = (protocols[response.protocol] ?? 0) + 1;
    if (response.status >= 400) faults.push(`${response.url}: ${response.status}`);
  });
  reportFailures(page, faults);
  page.on("pageerror", (error) => faults.push(error.message));
  for (const path of paths) await page.goto(origin + path, { waitUntil: "networkidle", timeout: 60000 });

  const digests = await page.evaluate(async (targets) => Promise.all(targets.map(async (target) => {
    const body = await (await fetch(target, { cache: "no-store" })).arrayBuffer();
    const digest = await crypto.subtle.digest("SHA-256", body);
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  })), lines.map(([target]) => target));
  for (const [number, [target, file]] of lines.entries()) {
    const expected = createHash("sha256").update(readFileSync(file)).digest("hex");
    if (digests[number] !== expected) faults.push(`${target}: the bytes differ from the file's`);
  }
} finally {
  await browser.close();
}
const others = Object.keys(protocols).filter((other) => other !== protocol);
if (others.length) faults.push(`other protocols: ${others.join(" ")}`);
for (const fault of faults) console.error(fault);
console.log(`compared ${lines.length}`);
process.exit(faults.length ? 1 : 0);
