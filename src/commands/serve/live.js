// Live reload: waits until the folder changes, then reloads the page, or exchanges its style sheets alone. Shows why the folder
// can't be compiled, and the warnings of the build that is served.
//
// Browsers open only six connections to a server over HTTP/1.1. So one document of a browser waits for the server, whatever frames,
// tabs and windows there are, and tells the others. A lock decides which one.
// `cannery serve` adds this script to each page; a deployed site doesn't have it.
(() => {
  "use strict";

  const PAGE = "/__/cannery/live";
  // Marks windows that follow the folder.
  const MARK = Symbol.for("cannery.live");
  // The name of the lock and of the channel.
  const NAME = "cannery-live";
  // Long enough to be rare, and shorter than the timeouts of servers and proxies.
  const TIMEOUT_MS = 25_000;
  // Over HTTP/2 and HTTP/3 the server answers at once. The pause grows while nothing changes.
  const PAUSE_MS = 200;
  const PAUSE_MAX_MS = 1_000;
  const RETRY_MS = 100;
  const RETRY_MAX_MS = 3_000;
  // The document that waits says so this often. The others ask themselves if they hear nothing for longer: it may be paused in
  // the debugger.
  const BEAT_MS = 1_000;
  const SILENCE_MS = 3_000;
  // The default size of the browser's buffer. If it is full, the list of loaded resources may be incomplete.
  const TIMINGS_MAX = 250;
  // The warnings that the user has hidden.
  const HIDDEN = "cannery-hidden-warnings";

  // A copy in a fragment that a script has added, or a document without an origin, whose requests the server refuses.
  if (window[MARK] || window.origin === "null") return;
  const mark = { isFollowing: false };
  Object.defineProperty(window, MARK, { value: mark });

  let state = "@STATE@";
  // The first request is answered at once: the page may have been loaded while the folder could not be compiled.
  let isCompared = false;
  let request = null;
  let overlay = null;
  // How often the first request is repeated.
  let attempts = 5;
  // Whether a style sheet could not be exchanged.
  let isStale = false;

  // Whether the document is in the browser's cache of documents that the user has left.
  let isLeft = false;
  const isVisible = () => !isLeft && document.visibilityState !== "hidden";

  // Other documents of the browser.
  let channel = null;
  // Gives up the lock, or the place in its queue.
  let withdraw = null;
  // Whether this document waits for the server.
  let leads = false;
  let isWell = false;
  let hasNews = false;
  let heard = 0;
  // The pause before the next request that doesn't wait.
  let wait = PAUSE_MS;
  let ticker = 0;
  // Insecure contexts have no locks. There, the documents take turns in asking.
  let hasLocks = Boolean(navigator.locks);

  // Continues what waits for a change of the above.
  let wake = () => {};
  const woken = () => new Promise((done) => { wake = done; });

  // Ends early if something else is to be done.
  async function pause(ms) {
    const timer = setTimeout(() => wake(), ms);
    await woken();
    clearTimeout(timer);
  }

  function join() {
    if (channel === null) {
      try {
        channel = new BroadcastChannel(NAME);
        channel.onmessage = ({ data }) => {
          heard = performance.now();
          if (data === state) {
            growWait();
          } else {
            hasNews = true;
            wake();
          }
        };
      } catch {
        // The browser permits no storage to this document, which then asks on its own.
      }
    }
    ticker ||= setInterval(() => {
      if (leads && isWell) tell(state);
      else if (performance.now() - heard > SILENCE_MS) wake();
    }, BEAT_MS);
  }

  function growWait() {
    wait = Math.min(wait * 1.5, PAUSE_MAX_MS);
  }

  // Tells the other documents the current state of the site.
  function tell(current) {
    heard = performance.now();
    channel?.postMessage(current);
  }

  // Enters the queue for the lock.
  function compete() {
    if (!hasLocks || withdraw !== null) return;
    const queue = new AbortController();
    let release = () => queue.abort();
    withdraw = () => release();
    const lead = () => new Promise((done) => {
      if (queue.signal.aborted) return done();
      release = done;
      leads = true;
      wake();
    });
    navigator.locks.request(NAME, { signal: queue.signal }, lead).catch(() => {
      // The browser permits no locks to this document.
      if (!queue.signal.aborted) hasLocks = false;
      wake();
    });
  }

  // Lets others wait for the server.
  function leave() {
    withdraw?.();
    withdraw = null;
    leads = false;
    clearInterval(ticker);
    ticker = 0;
    channel?.close();
    channel = null;
    mark.isFollowing = false;
  }

  // Suffixes: `-first` is the first request of a page, and `-now` is one that doesn't wait.
  async function requestChange(suffix) {
    const current = new AbortController();
    request = current;
    const timer = setTimeout(() => current.abort(), TIMEOUT_MS);
    const sent = performance.now();
    try {
      // Not relative to the base URL of the document, which may be that of another server.
      const url = `${location.origin}${PAGE}?${state}${suffix}`;
      const response = await fetch(url, { cache: "no-store", signal: current.signal });
      if (!response.ok) throw new Error(`${response.status}`);
      const received = performance.now();
      const change = await response.json();
      return suffix === "-first" ? sinceRequest(change, sent, received) : change;
    } finally {
      clearTimeout(timer);
    }
  }

  // Lets the page reload if the folder has changed after the page was requested, and before this script was. Returns null if
  // that isn't certain: then the script asks again.
  function sinceRequest(change, sent, received) {
    const navigation = performance.getEntriesByType("navigation")[0];
    // After "back", browsers take the page from their cache, however old it is.
    if (navigation?.type === "back_forward" && navigation.transferSize === 0 && navigation.workerStart === 0) {
      return { ...change, action: "reload" };
    }
    const requested = navigation?.requestStart ?? 0;
    // The server has responded at some time between these two.
    if (received - change.changed_ms <= requested) return change;
    if (sent - change.changed_ms <= requested && attempts-- > 0) return null;
    return { ...change, action: "reload" };
  }

  function needsReload(change) {
    const canExchange = () => change.styles.every((path) => isExchangeable(`/${path}`));
    return change.action === "reload" || isStale || (change.action === "styles" && !canExchange());
  }

  function apply(change) {
    for (const path of change.styles) exchangeStyle(`/${path}`, change.state);
    const isNew = change.state !== state || !isCompared;
    state = change.state;
    isCompared = true;
    if (isNew) showRemarks(change);
  }

  // Returns the decoded path of a URL of this site, or null for that of another one.
  function pathOf(url) {
    try {
      const { origin, pathname } = new URL(url, document.baseURI);
      return origin === location.origin ? decodeURIComponent(pathname) : null;
    } catch {
      return null;
    }
  }

  // The paths of what was loaded otherwise than by a link: imported style sheets, and what scripts fetch.
  const otherwiseLoaded = new Set();
  let hasAllTimings = performance.getEntriesByType("resource").length < TIMINGS_MAX;
  try {
    new PerformanceObserver((list) => {
      for (const { name, initiatorType } of list.getEntries()) {
        const path = initiatorType === "link" ? null : pathOf(name);
        if (path?.endsWith(".css")) otherwiseLoaded.add(path);
      }
    }).observe({ type: "resource", buffered: true });
  } catch {
    hasAllTimings = false;
  }

  // Links that are exchanged, with the new ones, which are still loading.
  const exchanges = new Map();

  const linksTo = (path, root) => [...root.querySelectorAll('link[rel~="stylesheet"][href]')]
    .filter((link) => pathOf(link.href) === path);

  // Returns true if all uses of a style sheet are links of this document that can be exchanged.
  function isExchangeable(path) {
    const links = linksTo(path, document);
    return hasAllTimings && links.length > 0 && links.every((link) => !link.integrity && !link.disabled)
      && !otherwiseLoaded.has(path) && !isImported(path, document)
      && !shadowRoots(document).some((root) => linksTo(path, root).length > 0 || isImported(path, root))
      && !hasStyledFrame(window);
  }

  function isImported(path, root) {
    const imports = (sheet) => {
      let rules;
      try {
        rules = [...sheet.cssRules];
      } catch {
        // It is of another origin, or is still loading.
        return false;
      }
      return rules.some((rule) => rule instanceof CSSImportRule
        && (pathOf(new URL(rule.href, sheet.href ?? document.baseURI)) === path
          || (rule.styleSheet !== null && imports(rule.styleSheet))));
    };
    return [...root.styleSheets].some(imports);
  }

  function shadowRoots(root) {
    const roots = [...root.querySelectorAll("*")].map((element) => element.shadowRoot).filter((found) => found !== null);
    return roots.flatMap((found) => [found, ...shadowRoots(found)]);
  }

  // Returns true if a frame has style sheets, and no script that follows them.
  function hasStyledFrame(parent) {
    for (let number = 0; number < parent.length; number++) {
      let inner = null;
      try {
        inner = parent[number].document;
      } catch {
        // It is of another origin.
        continue;
      }
      if (!parent[number][MARK] && (inner.styleSheets.length > 0 || hasStyledFrame(parent[number]))) return true;
    }
    return false;
  }

  // The old style sheet stays until the new one is loaded, so that the page never shows without styles.
  function exchangeStyle(path, version) {
    const loading = new Set(exchanges.values());
    for (const link of linksTo(path, document).filter((link) => !loading.has(link))) {
      exchanges.get(link)?.remove();
      const url = new URL(link.href);
      url.searchParams.set("cannery", version);
      const next = link.cloneNode();
      next.href = url.href;
      exchanges.set(link, next);
      const finish = (remove) => {
        // Another exchange may have replaced this one.
        if (exchanges.get(link) !== next) return;
        exchanges.delete(link);
        remove.remove();
      };
      next.addEventListener("load", () => finish(link));
      next.addEventListener("error", () => {
        if (exchanges.get(link) !== next) return;
        finish(next);
        // The page is reloaded when the server responds.
        isStale = true;
        hasNews = true;
        request?.abort();
        wake();
      });
      link.after(next);
    }
  }

  // Styles are set one by one, which a Content-Security-Policy without 'unsafe-inline' permits.
  function element(name, text, styles, priority = "") {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [property, value] of Object.entries(styles)) made.style.setProperty(property, value, priority);
    return made;
  }

  function remark({ file, line, severity, message }) {
    const place = line === null ? file : `${file}:${line}`;
    return element("p", `${place}: ${severity}: ${message}`, { "white-space": "pre-wrap", "overflow-wrap": "anywhere", margin: "12px 0" });
  }

  // Shows a title, a button that hides all of it, and the rest, which can be scrolled. The styles of the site don't apply to it.
  function show(name, role, styles, title, remarks, hide) {
    const host = element(name, "", {
      all: "initial", position: "fixed", "z-index": "2147483647", display: "block", "box-sizing": "border-box",
      overflow: "hidden", background: "#141418", color: "#eee", "color-scheme": "dark", direction: "ltr",
      font: "14px/1.5 ui-monospace, monospace", "text-align": "left", ...styles,
    }, "important");
    host.setAttribute("role", role);
    // The top layer, where neither opacity and transforms of the root element apply nor elements of the site cover it.
    host.setAttribute("popover", "manual");
    const close = element("button", "Hide", {
      font: "inherit", color: "#fff", background: "#3a3a44", border: "1px solid #888", "border-radius": "4px", cursor: "pointer",
      padding: "4px 14px", flex: "none",
    });
    close.addEventListener("click", () => {
      host.remove();
      hide();
    });
    const head = element("div", "", { display: "flex", gap: "16px", "align-items": "start", "justify-content": "space-between", flex: "none" });
    head.append(title, close);
    const body = element("div", "", { overflow: "auto", "min-height": "0" });
    body.append(...remarks);
    const box = element("div", "", {
      display: "flex", "flex-direction": "column", "box-sizing": "border-box", "max-height": "inherit", height: "100%", padding: "10px 16px",
    });
    box.append(head, body);
    host.attachShadow({ mode: "open" }).append(box);
    document.documentElement.append(host);
    host.showPopover?.();
    overlay = host;
  }

  // Returns true if the document is in a frame of one that shows the same remarks.
  function isInFollowingPage() {
    try {
      for (let inner = window; inner !== inner.parent; inner = inner.parent) {
        if (inner.parent[MARK]) return true;
      }
    } catch {
      // It is of another origin.
    }
    return false;
  }

  function showRemarks({ failure, warnings, warning_count: count }) {
    overlay?.remove();
    overlay = null;
    if (isInFollowingPage()) return;
    if (failure) showFailure(failure);
    else if (count > 0) showWarnings(warnings, count);
  }

  function showFailure({ message, diagnostics }) {
    const title = element("h1", message, { font: "inherit", "font-size": "20px", color: "#ff8a80", margin: "0", "overflow-wrap": "anywhere" });
    const end = element("p", "The last version is still served. This disappears when the error is fixed.", { color: "#bbb" });
    show("cannery-overlay", "alert", { inset: "0" }, title, [...diagnostics.map(remark), end], () => {});
  }

  // A notice in a corner, which stays hidden until there is another warning.
  function showWarnings(warnings, count) {
    const names = warnings.map((warning) => JSON.stringify(warning));
    const hidden = hiddenWarnings();
    if (names.every((name) => hidden.includes(name))) return;

    const title = element("strong", count === 1 ? "1 warning" : `${count} warnings`, { color: "#ffca28" });
    const remarks = warnings.map(remark);
    if (count > warnings.length) remarks.push(element("p", `${count - warnings.length} more warnings are in the terminal.`, {}));
    const styles = {
      right: "12px", bottom: "12px", width: "min(600px, calc(100vw - 24px))", "max-height": "min(30vh, 300px)",
      "font-size": "13px", "border-left": "4px solid #ffca28",
    };
    show("cannery-warnings", "status", styles, title, remarks, () => setHidden(names));
  }

  // A hidden warning is shown again if it returns after it was fixed. The page may be about to reload. After a restart, the server
  // doesn't know all warnings at first.
  function forgetFixedWarnings({ failure, warnings, warning_count: count, knows_all_warnings: knowsAll }) {
    if (failure || !knowsAll || count > warnings.length) return;
    const names = warnings.map((warning) => JSON.stringify(warning));
    setHidden(hiddenWarnings().filter((name) => names.includes(name)));
  }

  function hiddenWarnings() {
    try {
      return JSON.parse(sessionStorage.getItem(HIDDEN)) ?? [];
    } catch {
      return [];
    }
  }

  function setHidden(names) {
    try {
      if (names.length > 0) sessionStorage.setItem(HIDDEN, JSON.stringify(names));
      else sessionStorage.removeItem(HIDDEN);
    } catch {
      // Without storage, they are hidden until the next reload.
    }
  }

  // Waits until there is something to ask for. Returns the suffix of the request.
  async function nextRequest(isAnsweredAtOnce) {
    if (!isCompared) {
      await pause(wait);
      return "-first";
    }
    compete();
    mark.isFollowing = true;
    if (!hasLocks) {
      // Whoever asks first tells the others, which then wait again.
      for (let left = wait; left > 0 && !hasNews && isVisible(); left = heard + wait - performance.now()) {
        await pause(left + Math.random() * 50);
      }
      return "-now";
    }
    if (leads && isAnsweredAtOnce) await pause(wait);
    while (hasLocks && !leads && !hasNews && isVisible() && performance.now() - heard <= SILENCE_MS) await woken();
    return leads && !hasNews ? "" : "-now";
  }

  // Follows the folder while the page is visible. Returns true if the page must be reloaded.
  async function followWhileVisible() {
    let suffix = isCompared ? "-now" : "-first";
    let retry = RETRY_MS;
    while (isVisible()) {
      join();
      hasNews = false;
      try {
        const change = await requestChange(suffix);
        isWell = true;
        retry = RETRY_MS;
        const isUnchanged = change === null || (isCompared && change.state === state);
        if (change) {
          tell(change.state);
          forgetFixedWarnings(change);
          if (needsReload(change)) return true;
          apply(change);
        }
        if (!isUnchanged) wait = PAUSE_MS;
        suffix = await nextRequest(change === null);
        growWait();
      } catch {
        // The server restarts, the laptop slept, or the tab was hidden.
        isWell = false;
        if (!isVisible()) break;
        if (!hasNews) {
          await pause(retry);
          retry = Math.min(retry * 2, RETRY_MAX_MS);
        }
        suffix = isCompared ? "-now" : "-first";
      }
    }
    return false;
  }

  async function follow() {
    for (;;) {
      while (!isVisible()) await woken();
      const reloads = await followWhileVisible();
      leave();
      if (reloads) {
        // The new page has a script of its own. If the user refuses to leave this one, it no longer follows the folder.
        location.reload();
        return;
      }
    }
  }

  // A hidden tab holds no connection, and asks when it is visible again.
  function visibilityChanged() {
    if (!isVisible()) {
      request?.abort();
      leave();
    }
    wake();
  }

  document.addEventListener("visibilitychange", visibilityChanged);
  addEventListener("pagehide", () => {
    isLeft = true;
    visibilityChanged();
  });
  addEventListener("pageshow", () => {
    if (!isLeft) return;
    isLeft = false;
    visibilityChanged();
  });
  if (navigator.serviceWorker?.controller) {
    console.warn("A service worker answers for this page, maybe with old versions of the site. Unregister it in the developer tools.");
  }
  follow();
})();
