// Loads each target with Node's HTTP/2 client on one connection, all at once and in each content coding, and compares the
// decoded bytes with the file. Usage: http2.mjs ORIGIN LIST.
import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import { brotliDecompressSync, gunzipSync } from "node:zlib";

const [origin, list] = process.argv.slice(2);
const lines = readFileSync(list, "utf8").split("\n").filter(Boolean);
const decoders = { br: brotliDecompressSync, gzip: gunzipSync, undefined: (body) => body };
const session = connect(origin, { rejectUnauthorized: false });

const load = (target, path, coding) => new Promise((resolve, reject) => {
  const stream = session.request({ ":path": target, "accept-encoding": coding });
  const pieces = [];
  let fields;
  stream.on("response", (received) => (fields = received));
  stream.on("data", (piece) => pieces.push(piece));
  stream.on("error", reject);
  stream.on("end", () => {
    if (fields[":status"] !== 200) return reject(new Error(`${target}: ${fields[":status"]}`));
    const body = Buffer.concat(pieces);
    if (body.length !== Number(fields["content-length"])) return reject(new Error(`${target}: ${body.length} bytes`));
    const content = decoders[fields["content-encoding"]](body);
    if (!content.equals(readFileSync(path))) return reject(new Error(`${target}: bytes that are not the file's`));
    resolve();
  });
});

const loads = [];
for (const [target, path] of lines.map((line) => line.split("\t"))) {
  for (const coding of ["identity", "gzip", "br"]) loads.push(load(target, path, coding));
}
await Promise.all(loads);
session.close();
console.log(`compared ${loads.length}`);
