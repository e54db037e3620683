// Loads a page in headless Chromium over a slow link, and reads from its network log in which order the responses ended,
// and how many bytes of all other responses had arrived by then.
// Usage: waterfall.mjs HOST PORT PATH TARGET. Prints a line for each response, in this order.
import { connect, createServer } from "node:net";
import { launch } from "./chromium.mjs";

const [host, port, path, target] = process.argv.slice(2);
// The link passes this number of bytes at a time, with pauses in milliseconds.
const PIECE = 16384;
const PAUSE = 10;
// Bytes that pass before TARGET is requested. On a busy machine, the browser may request it late, and no server can then
// reorder the bytes that it has already sent.
const FIRST = 65536;
const loads = new Map();
const isRequested = () => [...loads.values()].some((load) => load.name === target);

// The link passes one piece at a time, so that most of the responses wait at the server.
const link = createServer((browser) => {
  const server = connect({ host, port, highWaterMark: PIECE });
  browser.pipe(server);
  let passed = 0;
  server.on("readable", function pass() {
    server.off("readable", pass);
    if (passed >= FIRST && !isRequested()) return setTimeout(pass, PAUSE);
    const piece = server.read(Math.min(PIECE, server.readableLength)) ?? Buffer.alloc(0);
    browser.write(piece);
    passed += piece.length;
    setTimeout(() => (server.readableLength ? pass() : server.on("readable", pass)), PAUSE);
  });
  server.on("end", () => browser.end());
  for (const end of [browser, server]) end.on("error", () => [browser, server].forEach((each) => each.destroy()));
});
await new Promise((done) => link.listen(0, "127.0.0.1", done));

const browser = await launch();
try {
  const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  let ended = 0;
  const others = (load) => [...loads.values()].reduce((sum, each) => sum + (each === load ? 0 : each.received), 0);
  network.on("Network.requestWillBeSent", ({ requestId, request }) => {
    const name = new URL(request.url).pathname;
    loads.set(requestId, { name, position: loads.size, priority: request.initialPriority, received: 0 });
  });
  network.on("Network.responseReceived", ({ requestId, response }) => (loads.get(requestId).protocol = response.protocol));
  network.on("Network.dataReceived", ({ requestId, dataLength }) => (loads.get(requestId).received += dataLength));
  network.on("Network.loadingFinished", ({ requestId }) => {
    const load = loads.get(requestId);
    Object.assign(load, { ended: ended++, others: others(load) });
  });
  await page.goto(`https://${host}:${link.address().port}${path}`, { waitUntil: "networkidle", timeout: 60000 });
} finally {
  await browser.close();
  link.close();
}
const ordered = [...loads.values()].sort((one, other) => one.ended - other.ended);
for (const { name, protocol, priority, position, received, others } of ordered) {
  console.log([name, protocol, priority, position, received, others].join("\t"));
}
process.exit(0);
