// Loads each target with fetch, and with an agent that keeps one connection open, and compares the decoded bytes with the
// file. Usage: load.mjs ADDRESS LIST.
import { readFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";

const [address, list] = process.argv.slice(2);
const lines = readFileSync(list, "utf8").split("\n").filter(Boolean);
const targets = lines.map((line) => line.split("\t")).map(([target, path]) => [target, readFileSync(path)]);
let compared = 0;
const compare = (target, status, body, content) => {
  if (status !== 200) throw new Error(`${target}: ${status}`);
  if (!content.equals(Buffer.from(body))) throw new Error(`${target}: ${body.length} bytes that are not the file's`);
  compared += 1;
};

for (const [target, content] of targets) {
  for (const coding of ["identity", "gzip", "br", "gzip, deflate, br"]) {
    const response = await fetch(`http://${address}${target}`, { headers: { "accept-encoding": coding } });
    compare(target, response.status, new Uint8Array(await response.arrayBuffer()), content);
  }
}

const decoders = { br: brotliDecompressSync, gzip: gunzipSync, undefined: (body) => body };
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const [host, port] = address.split(":");
const load = (path, coding) =>
  new Promise((resolve, reject) => {
    const headers = { "accept-encoding": coding };
    get({ agent, host, port, path, headers }, (response) => {
      const pieces = [];
      response.on("data", (piece) => pieces.push(piece));
      response.on("end", () => resolve([response, Buffer.concat(pieces)]));
    }).on("error", reject);
  });
for (const [target, content] of targets) {
  for (const coding of ["identity", "gzip", "br"]) {
    const [response, body] = await load(target, coding);
    compare(target, response.statusCode, decoders[response.headers["content-encoding"]](body), content);
  }
}
agent.destroy();
console.log(`compared ${compared}`);
process.exit(0);
