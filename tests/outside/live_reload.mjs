// A person's browser while a folder is edited: URL and folder are the arguments. Prints `restart` when the server is to be
// replaced by another at the same address, and waits for a line of input. Fails if a page doesn't follow.
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { once } from "node:events";
import { join } from "node:path";
import { launch } from "./chromium.mjs";

const [url, folder] = process.argv.slice(2);
const at = (path) => new URL(path, url).href;
const input = createInterface({ input: process.stdin });
const place = (name) => join(folder, name);
const save = (name, content) => writeFileSync(place(name), content);
const remove = (name) => rmSync(place(name));
const page = (text, more = "") => `<!doctype html><link rel=stylesheet href=/a.css><title>a</title>${more}<h1>${text}</h1>
<div style="height: 5000px"></div></body>`;
const style = (shade) => `h1 { color: rgb(${shade}, ${shade}, ${shade}) }`;
const check = (holds, message) => { if (!holds) throw new Error(message); };

const browser = await launch();
const newContext = () => browser.newContext({ viewport: { width: 800, height: 600 } });
const open = async (context, path) => {
  const tab = await context.newPage();
  tab.on("pageerror", (error) => { throw error; });
  await tab.goto(at(path), { waitUntil: "load" });
  return tab;
};
const until = (tab, condition, argument = null) => tab.waitForFunction(condition, argument, { timeout: 15000 });
const heading = (tab, text) => until(tab, (text) => document.querySelector("h1")?.textContent === text, text);
const shade = (tab, shade) => until(tab,
  (color) => getComputedStyle(document.querySelector("h1")).color === color, `rgb(${shade}, ${shade}, ${shade})`);
// Waits until the script has compared the page with the folder. It reloads the page for a change that comes earlier.
const follows = (tab) => until(tab, () => window[Symbol.for("cannery.live")]?.isFollowing);
const notice = (tab, name, text) => until(tab,
  ([name, text]) => (document.querySelector(name)?.shadowRoot.textContent ?? "").includes(text), [name, text]);
const noNotice = (tab, name) => until(tab, (name) => !document.querySelector(name), name);
const OVERLAY = "cannery-overlay";
const WARNINGS = "cannery-warnings";
// A reload that the page's script has begun may interrupt this, also if its page was left in the meantime.
const go = async (tab, url) => {
  const interruption = () => tab.goto(url, { waitUntil: "commit" }).then(() => null, (error) => error);
  for (let error = await interruption(); error; error = await interruption()) {
    check(error.message.includes("interrupted by"), error.message);
  }
};
const leave = (tab) => go(tab, "about:blank");
// Changes the folder, and then loads a page, which must not be a reload of the one before.
const visit = async (tab, path, change) => {
  await leave(tab);
  change();
  await go(tab, at(path));
};
// A reload removes the mark.
const mark = (tab) => tab.evaluate(() => { window.mark = true; });
const isMarked = (tab) => tab.evaluate(() => window.mark === true);

try {
  save("index.html", page("first"));
  save("a.css", style(1));
  // Two tabs of one browser context, which share connections, and one of another.
  const context = await newContext();
  const tabs = [await open(context, "/"), await open(context, "/"), await open(await newContext(), "/")];
  const [tab, other] = tabs;
  const each = (action) => Promise.all(tabs.map(action));
  const shows = (text) => each((tab) => heading(tab, text));

  await shows("first");
  await each((tab) => tab.evaluate(() => scrollTo(0, 1234)));
  save("index.html", page("second"));
  await shows("second");
  await each((tab) => until(tab, () => scrollY === 1234));

  await exchangesStyles(tabs);
  await exchangesOnce(tab);
  await followsWhileLoading();
  await showsFailures();
  await showsWarnings();
  await obeysPolicy();
  await followsHiddenTab();
  await tabs.pop().context().close();
  await tabs.pop().close();
  await followsEachWayOfSaving();
  await reloadsForOtherUsesOfStyles();
  await followsAfterDroppedConnections();

  await visit(tab, "/", () => save("index.html", page("before")));
  await follows(tab);
  console.log("restart");
  await once(input, "line");
  save("index.html", page("third"));
  await heading(tab, "third");
  save("index.html", page("fourth"));
  await heading(tab, "fourth");

  // Style sheets are exchanged without a reload.
  async function exchangesStyles() {
    await each(follows);
    await each(mark);
    save("a.css", style(2));
    await each((tab) => shade(tab, 2));
    for (const tab of tabs) check(await isMarked(tab), "the page was reloaded for a style sheet");
  }

  // Two changes before the first new style sheet is loaded.
  async function exchangesOnce(tab) {
    const held = [];
    let notify = () => {};
    const pattern = /a\.css\?cannery=/;
    await tab.route(pattern, (route) => { held.push(route); notify(); });
    const isHeld = async (count) => {
      while (held.length < count) await new Promise((done) => { notify = done; });
    };
    save("a.css", style(3));
    await isHeld(1);
    save("a.css", style(4));
    await isHeld(2);
    // The first request may have been canceled.
    for (const route of held) await route.continue().catch(() => {});
    await tab.unroute(pattern);
    await shade(tab, 4);
    await until(tab, () => document.querySelectorAll("link").length === 1);
    check(await isMarked(tab), "the page was reloaded for a style sheet");
  }

  // A change after the page was sent, and before its script is.
  async function followsWhileLoading() {
    const pattern = /live\.js$/;
    let release;
    const released = new Promise((done) => { release = done; });
    await tab.route(pattern, async (route) => {
      await released;
      await route.continue();
    });
    await tab.goto(at("/"), { waitUntil: "commit" });
    await heading(tab, "second");
    save("index.html", page("meanwhile"));
    await heading(other, "meanwhile");
    check(await tab.textContent("h1") === "second", "the page has no script yet");
    release();
    await heading(tab, "meanwhile");
    await tab.unroute(pattern);
    save("index.html", page("second"));
    await shows("second");
  }

  async function showsFailures() {
    save("_headers", "/*\n  Basic-Auth: a:b\n");
    await each((tab) => notice(tab, OVERLAY, "_headers:2"));
    // A page that is loaded meanwhile shows the failure too, and the last version of the site.
    await tab.reload({ waitUntil: "load" });
    await notice(tab, OVERLAY, "_headers:2");
    await shows("second");
    remove("_headers");
    await each((tab) => noNotice(tab, OVERLAY));
  }

  async function showsWarnings() {
    save("_redirects", "/old /new 99\n");
    await each((tab) => notice(tab, WARNINGS, "_redirects:1: warning"));
    await shows("second");
    // A hidden warning stays hidden, until there is another one.
    await tab.click(`${WARNINGS} button`);
    await noNotice(tab, WARNINGS);
    save("index.html", page("warned"));
    await shows("warned");
    await notice(other, WARNINGS, "_redirects:1: warning");
    check(await tab.$(WARNINGS) === null, "a hidden warning is shown again");
    save("_redirects", "/old /new 99\n/older /new 98\n");
    await each((tab) => notice(tab, WARNINGS, "_redirects:2: warning"));
    remove("_redirects");
    await each((tab) => noNotice(tab, WARNINGS));
  }

  // With a restrictive policy, the page follows, and notices have their styles.
  async function obeysPolicy() {
    const policy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; require-trusted-types-for 'script'";
    await visit(tab, "/?policy", () => save("_headers", `/*\n  Content-Security-Policy: ${policy}\n`));
    save("index.html", page("restricted"));
    await heading(tab, "restricted");
    const isFixed = (name) => until(tab, (name) => {
      const made = document.querySelector(name);
      return made !== null && getComputedStyle(made).position === "fixed";
    }, name);
    save("_redirects", "/old /new 99\n");
    await isFixed(WARNINGS);
    remove("_redirects");
    await noNotice(tab, WARNINGS);
    save("_headers", `/*\n  Content-Security-Policy: ${policy}\n  Basic-Auth: a:b\n`);
    await isFixed(OVERLAY);
    remove("_headers");
    await noNotice(tab, OVERLAY);
    await visit(tab, "/", () => {});
  }

  // A tab in the background doesn't follow until it is visible. Headless Chromium hides no tab, so its state is replaced.
  async function followsHiddenTab() {
    const setVisibility = (state) => tab.evaluate((state) => {
      Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
    await follows(tab);
    await setVisibility("hidden");
    save("index.html", page("unseen"));
    await heading(other, "unseen");
    check(await tab.textContent("h1") === "restricted", "a hidden page was reloaded");
    await setVisibility("visible");
    await heading(tab, "unseen");
  }

  async function followsEachWayOfSaving() {
    await visit(tab, "/new", () => save("404.html", page("missing")));
    await heading(tab, "missing");
    save("new.html", page("created"));
    await heading(tab, "created");
    save(".new.html.swp", page("renamed"));
    renameSync(place(".new.html.swp"), place("new.html"));
    await heading(tab, "renamed");
    renameSync(place("new.html"), place("new.html~"));
    save("new.html", page("backed up"));
    await heading(tab, "backed up");
    remove("new.html");
    await heading(tab, "missing");
    remove("new.html~");

    // A folder that is exchanged by two moves, and one by a symbolic link.
    await visit(tab, "/one/page", () => {
      for (const name of ["one", "two"]) {
        mkdirSync(place(name));
        save(`${name}/page.html`, page(`of ${name}`));
      }
    });
    await heading(tab, "of one");
    renameSync(place("one"), place("zero"));
    renameSync(place("two"), place("one"));
    await heading(tab, "of two");
    await visit(tab, "/current/page", () => symlinkSync("one", place("current")));
    await heading(tab, "of two");
    symlinkSync("zero", place("next"));
    renameSync(place("next"), place("current"));
    await heading(tab, "of one");

    await visit(tab, "/many/999", () => {});
    await heading(tab, "missing");
    mkdirSync(place("many"));
    for (let number = 0; number < 1000; number++) save(`many/${number}.html`, page(`page ${number}`));
    await heading(tab, "page 999");
    rmSync(place("many"), { recursive: true });
    await heading(tab, "missing");
  }

  // Style sheets that can't be exchanged, because something else than a link of the page uses them too.
  async function reloadsForOtherUsesOfStyles() {
    const link = "<link rel=stylesheet href=/b.css>";
    const script = (body) => `${link}<h2>a</h2><script type=module>${body}</script>`;
    const color = (shade) => `h2 { color: rgb(${shade}, 0, 0) }`;
    save("imports.css", "@import 'b.css';");
    const uses = {
      style: [`${link}<style>@import "/b.css";</style><h2>a</h2>`, "document"],
      sheet: ["<link rel=stylesheet href=/imports.css><h2>a</h2>", "document"],
      fetched: [script(`const sheet = new CSSStyleSheet();
        sheet.replaceSync(await (await fetch("/b.css")).text());
        document.adoptedStyleSheets = [sheet];`), "document"],
      shadow: [script(`const root = document.body.appendChild(document.createElement("div")).attachShadow({ mode: "open" });
        root.innerHTML = '<link rel=stylesheet href=/b.css><h2>b</h2>';`), "document.querySelector('div')?.shadowRoot"],
      frame: [`${link}<h2>a</h2><iframe srcdoc="<link rel=stylesheet href=/b.css><h2>b</h2>"></iframe>`, "frames[0]?.document"],
      disabled: [`<link rel=stylesheet href=/b.css disabled><link rel=stylesheet href=/b.css><h2>a</h2>`, "document"],
    };
    let shade = 10;
    save("b.css", color(shade));
    for (const [name, [body, root]] of Object.entries(uses)) {
      await visit(tab, `/${name}`, () => save(`${name}.html`, `<!doctype html>${body}</body>`));
      const hasShade = (shade) => until(tab, ([root, color]) => {
        const heading = eval(root)?.querySelector("h2");
        return heading && getComputedStyle(heading).color === color;
      }, [root, `rgb(${shade}, 0, 0)`]);
      await hasShade(shade);
      save("b.css", color(++shade));
      await hasShade(shade);
    }
  }

  // As after a computer has slept: all connections are gone, and for a moment none can be opened.
  async function followsAfterDroppedConnections() {
    const { hostname, port } = new URL(url);
    const sockets = new Set();
    const listen = async (at) => {
      const proxy = createServer((client) => {
        const server = connect(Number(port), hostname);
        for (const [from, to] of [[client, server], [server, client]]) {
          sockets.add(from);
          from.on("error", () => {}).on("close", () => to.destroy());
          from.pipe(to);
        }
      }).listen(at, "127.0.0.1");
      await once(proxy, "listening");
      return proxy;
    };
    const proxy = await listen(0);
    const address = proxy.address().port;
    await visit(tab, `http://127.0.0.1:${address}/`, () => save("index.html", page("awake")));
    await heading(tab, "awake");
    await follows(tab);

    proxy.close();
    const failed = tab.waitForEvent("requestfailed");
    for (const socket of sockets) socket.destroy();
    await failed;
    save("index.html", page("slept"));
    const next = await listen(address);
    await heading(tab, "slept");
    await leave(tab);
    next.close();
  }
} finally {
  await browser.close();
}
process.exit(0);
