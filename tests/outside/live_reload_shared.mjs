// Many documents of one browser follow a folder, and leave its connections to the pages: URL and folder are the arguments. Fails
// if a document doesn't follow, if more than one request waits, or if a page can't be used on each site.
import { writeFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./chromium.mjs";

const [url, folder, kind] = process.argv.slice(2);
const at = (path) => new URL(path, url).href;
const save = (name, content) => writeFileSync(join(folder, name), content);
const check = (holds, message) => { if (!holds) throw new Error(message); };
const until = (target, condition, argument = null) => target.waitForFunction(condition, argument, { timeout: 15000 });
const shows = (target, text) => until(target, (text) => document.querySelector("h1")?.textContent === text, text);
const follows = (target) => until(target, () => window[Symbol.for("cannery.live")]?.isFollowing);
const page = (text, more = "") => `<!doctype html><title>a</title><h1>${text}</h1>${more}</body>`;

// The requests that wait for a change, of all documents of a browser context.
const waiting = (context) => {
  const open = new Set();
  const isWaiting = (request) => /\/__\/cannery\/live\?[^-]*-\d+$/.test(request.url());
  context.on("page", (tab) => {
    const own = [];
    tab.on("request", (request) => {
      if (!isWaiting(request)) return;
      own.push(request);
      open.add(request);
    });
    tab.on("close", () => own.forEach((request) => open.delete(request)));
  });
  for (const end of ["requestfinished", "requestfailed"]) context.on(end, (request) => open.delete(request));
  return open;
};
const fetchesData = async (target) => {
  const data = await target.evaluate(() => fetch("/data.json", { cache: "no-store" }).then((response) => response.text()));
  check(data === "{}", `the data is ${data}`);
};

// A name that leads to the loopback address isn't a secure context.
const browser = await launch(["--disable-quic", "--host-resolver-rules=MAP site.test 127.0.0.1"]);
try {
  save("data.json", "{}");
  save("index.html", page("first"));
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  context.setDefaultTimeout(15000);
  const open = waiting(context);
  const newTab = async (path) => {
    const tab = await context.newPage();
    tab.on("pageerror", (error) => { throw error; });
    await tab.goto(at(path), { waitUntil: "commit" });
    return tab;
  };

  // Eight windows, each of which is visible.
  const tabs = [];
  for (let number = 0; number < 8; number++) tabs.push(await newTab("/"));
  const each = (action) => Promise.all(tabs.map(action));
  await each(follows);
  await each(fetchesData);
  check(open.size <= 1, `${open.size} requests wait`);
  save("index.html", page("second"));
  await each((tab) => shows(tab, "second"));

  // The one that waits is closed, one by one: another takes its place.
  for (const text of ["third", "fourth"]) {
    await each(follows);
    await tabs.shift().close();
    save("index.html", page(text));
    await each((tab) => shows(tab, text));
    await each(fetchesData);
  }
  const [tab] = tabs;
  for (const other of tabs.splice(1)) await other.close();
  if (kind === "insecure") {
    check(await tab.evaluate(() => !isSecureContext), "the context is secure");
    await followsFrames();
  } else {
    check(open.size <= 1, `${open.size} requests wait`);
    await followsFrames();
    await leavesFragments();
    await followsBackAndForward();
    await followsErrorPages();
    await followsWithBase();
    await readsOnEachSite();
  }

  // Changes the folder, and then loads a page, which no reload of the one before interrupts.
  async function visit(path, change = () => {}) {
    while (tab.url() !== "about:blank") {
      await tab.goto("about:blank").catch((error) => check(error.message.includes("interrupted by"), error.message));
    }
    change();
    await tab.goto(at(path), { waitUntil: "commit" });
    await follows(tab);
  }

  // Eight frames, and as many copies of the script in one document.
  async function followsFrames() {
    const copies = '<script src="/__/cannery/live.js"></script>'.repeat(8);
    const inner = Array.from({ length: 8 }, (_, number) => `<iframe src="/frame.html?${number}"></iframe>`).join("");
    await visit("/frames", () => {
      save("frame.html", page("frame"));
      save("frames.html", page("frames", copies + inner));
    });
    const framesFollow = () => until(tab, () => frames.length === 8
      && [...Array(8).keys()].every((number) => frames[number][Symbol.for("cannery.live")]?.isFollowing));
    await framesFollow();
    const data = await tab.evaluate(() => Promise.all([...Array(8).keys()].map(async (number) => (
      await frames[number].fetch("/data.json", { cache: "no-store" })).text())));
    check(data.every((text) => text === "{}"), `the data is ${data}`);
    check(open.size <= 1, `${open.size} requests wait`);
    save("frame.html", page("changed"));
    await until(tab, () => frames.length === 8
      && [...Array(8).keys()].every((number) => frames[number].document.querySelector("h1")?.textContent === "changed"));
    // A warning is shown once, not in each frame.
    save("_redirects", "/old /new 99\n");
    await until(tab, () => document.querySelector("cannery-warnings"));
    await framesFollow();
    const others = await tab.evaluate(() => [...Array(8).keys()]
      .filter((number) => frames[number].document.querySelector("cannery-warnings")).length);
    check(others === 0, `${others} frames show the warning`);
    rmSync(join(folder, "_redirects"));
    await until(tab, () => !document.querySelector("cannery-warnings"));
  }

  // What scripts fetch has no script of ours, and as many fragments as you like can be added.
  async function leavesFragments() {
    await visit("/list", () => {
      save("fragment.html", "<li>one</li>");
      save("list.html", page("list", "<ul></ul>"));
    });
    const fragments = await tab.evaluate(async () => {
      for (let number = 0; number < 12; number++) {
        const text = await (await fetch("/fragment.html")).text();
        document.querySelector("ul").append(document.createRange().createContextualFragment(text));
      }
      return document.querySelector("ul").innerHTML;
    });
    check(fragments === "<li>one</li>".repeat(12), fragments);
    await fetchesData(tab);
    check(open.size <= 1, `${open.size} requests wait`);
  }

  // A page from the cache of pages that were left catches up.
  async function followsBackAndForward() {
    await visit("/one", () => save("one.html", page("one")));
    await tab.goto(at("/list"), { waitUntil: "commit" });
    await follows(tab);
    await tab.evaluate(() => { window.isOld = true; });
    save("one.html", page("one, changed"));
    // The reload of this page would interrupt the navigation.
    await until(tab, () => !window.isOld);
    await follows(tab);
    await tab.goBack({ waitUntil: "commit" });
    await shows(tab, "one, changed");
  }

  async function followsErrorPages() {
    await visit("/none/here");
    check((await tab.textContent("h1")).includes("Not found"), "it is the built-in page");
    save("_redirects", "/old /new 99\n");
    await until(tab, () => document.querySelector("cannery-warnings")?.shadowRoot.textContent.includes("_redirects:1: warning"));
    rmSync(join(folder, "_redirects"));
    await follows(tab);
    save("404.html", page("our own"));
    await shows(tab, "our own");
    await follows(tab);
    save("404.html", page("our own, changed"));
    await shows(tab, "our own, changed");
    rmSync(join(folder, "404.html"));
  }

  async function followsWithBase() {
    const base = '<base href="http://127.0.0.1:9/elsewhere/">';
    await visit("/base", () => save("base.html", page("base", base)));
    save("base.html", page("base, changed", base));
    await shows(tab, "base, changed");
  }

  // Notices are readable, whatever the styles of the site, and small on a phone.
  async function readsOnEachSite() {
    const styles = `:root { font-size: 4px; direction: rtl; opacity: 0.1; filter: blur(9px); transform: scale(0.5); overflow: hidden } * { color: #444 !important; background: none !important; all: unset }
      p { color: #444 } button { all: unset; display: none !important } cannery-warnings, cannery-overlay { display: none; opacity: 0 }`;
    await tab.setViewportSize({ width: 390, height: 844 });
    await visit("/styled", () => {
      save("styled.html", page("styled", `<style>${styles}</style>`));
      save("_redirects", Array.from({ length: 12 }, (_, number) => `/old${number} /new 99\n`).join(""));
    });
    const seen = async (name) => {
      await until(tab, (name) => document.querySelector(name)?.shadowRoot.querySelector("p"), name);
      return tab.evaluate((name) => {
        const host = document.querySelector(name);
        const [paragraph, button] = ["p", "button"].map((selector) => host.shadowRoot.querySelector(selector));
        const style = (element) => getComputedStyle(element);
        const box = host.getBoundingClientRect();
        const at = button.getBoundingClientRect();
        return {
          color: style(paragraph).color, background: style(host).backgroundColor, opacity: style(host).opacity,
          size: parseFloat(style(paragraph).fontSize), direction: style(paragraph).direction,
          covered: box.height / innerHeight, isWithin: box.left >= 0 && box.right <= innerWidth,
          isReachable: host.shadowRoot.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2) === button,
          border: style(button).borderTopStyle, isOnTop: host.matches(":popover-open"),
        };
      }, name);
    };
    const isReadable = ({ color, background, opacity, size, direction, isWithin, isReachable, border, isOnTop }) => isOnTop && color === "rgb(238, 238, 238)"
      && background === "rgb(20, 20, 24)" && opacity === "1" && size >= 12 && direction === "ltr" && isWithin && isReachable && border === "solid";
    const warnings = await seen("cannery-warnings");
    check(isReadable(warnings) && warnings.covered < 0.35, JSON.stringify(warnings));
    save("_headers", "/*\n  Basic-Auth: a:b\n");
    const failure = await seen("cannery-overlay");
    check(isReadable(failure) && failure.covered === 1, JSON.stringify(failure));
    await tab.click("cannery-overlay button");
    await until(tab, () => !document.querySelector("cannery-overlay"));
  }
} finally {
  await browser.close();
}
process.exit(0);
