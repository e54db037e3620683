// Headless Chromium loads a page over a slow line, and its own record of the network says in which order things came: for
// each of them, when it was whole, and how much of all others had come by then.
// Usage: waterfall.mjs HOST PORT PATH WANTED, prints a line for each in the order in which they were whole.
import { connect, createServer } from "node:net";
import { launch } from "./chromium.mjs";

const [host, port, path, wanted] = process.argv.slice(2);
const PIECE = 16384; // octets, which the line lets through
const PAUSE = 10; // milliseconds apart
// Octets that come before WANTED is asked for. A browser on a busy machine may take long for that, and what has left by
// then cannot be overtaken by any server.
const FIRST = 65536;
const loads = new Map();
const isAsked = () => [...loads.values()].some((load) => load.name === wanted);

// The line: what the server sends comes a piece at a time, so that most of it waits at the server.
const line = createServer((browser) => {
  const server = connect({ host, port, highWaterMark: PIECE });
  browser.pipe(server);
  let passed = 0;
  server.on("readable", function pass() {
    server.off("readable", pass);
    if (passed >= FIRST && !isAsked()) return setTimeout(pass, PAUSE);
    const piece = server.read(Math.min(PIECE, server.readableLength)) ?? Buffer.alloc(0);
    browser.write(piece);
    passed += piece.length;
    setTimeout(() => (server.readableLength ? pass() : server.on("readable", pass)), PAUSE);
  });
  server.on("end", () => browser.end());
  for (const end of [browser, server]) end.on("error", () => [browser, server].forEach((each) => each.destroy()));
});
await new Promise((done) => line.listen(0, "127.0.0.1", done));

const browser = await launch();
try {
  const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  let whole = 0;
  const others = (load) => [...loads.values()].reduce((sum, each) => sum + (each === load ? 0 : each.came), 0);
  network.on("Network.requestWillBeSent", ({ requestId, request }) => {
    const name = new URL(request.url).pathname;
    loads.set(requestId, { name, asked: loads.size, priority: request.initialPriority, came: 0 });
  });
  network.on("Network.responseReceived", ({ requestId, response }) => (loads.get(requestId).protocol = response.protocol));
  network.on("Network.dataReceived", ({ requestId, dataLength }) => (loads.get(requestId).came += dataLength));
  network.on("Network.loadingFinished", ({ requestId }) => {
    const load = loads.get(requestId);
    Object.assign(load, { whole: whole++, others: others(load) });
  });
  await page.goto(`https://${host}:${line.address().port}${path}`, { waitUntil: "networkidle", timeout: 60000 });
} finally {
  await browser.close();
  line.close();
}
const ordered = [...loads.values()].sort((one, other) => one.whole - other.whole);
for (const { name, protocol, priority, asked, came, others } of ordered) {
  console.log([name, protocol, priority, asked, came, others].join("\t"));
}
process.exit(0);
