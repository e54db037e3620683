// Live reload: waits until the folder changes, then reloads the page, or exchanges its style sheets alone. Shows why the folder
// can't be compiled, and the warnings of the build that is served.
// `cannery serve` adds this script to each page; a deployed site doesn't have it.
(() => {
  "use strict";

  const SCRIPT = "/__/cannery/live.js";
  const PAGE = "/__/cannery/live";
  // Long enough to be rare, and shorter than the timeouts of servers and proxies.
  const TIMEOUT_MS = 25_000;
  // Over HTTP/2 and HTTP/3 the server answers at once. The pause grows while nothing changes.
  const PAUSE_MS = 200;
  const PAUSE_MAX_MS = 1_000;
  const RETRY_MS = 100;
  const RETRY_MAX_MS = 3_000;
  // The default size of the browser's buffer. If it is full, the list of loaded resources may be incomplete.
  const TIMINGS_MAX = 250;
  // The warnings that the user has hidden.
  const HIDDEN = "cannery-hidden-warnings";
  const LOOK = {
    position: "fixed", "z-index": "2147483647", overflow: "auto", background: "rgb(20 20 24)", color: "#eee",
    font: "16px/1.5 ui-monospace, monospace", "text-align": "left", display: "block",
  };

  let state = "@STATE@";
  // The first request is answered at once: the page may have been loaded while the folder could not be compiled.
  let suffix = "-first";
  let retry = RETRY_MS;
  let request = null;
  let overlay = null;
  // How often the first request is repeated.
  let attempts = 5;
  // Whether a style sheet could not be exchanged.
  let isStale = false;

  // Ends early if the tab becomes visible.
  const pause = (ms) => new Promise((done) => {
    const finish = () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", finish);
      done();
    };
    const timer = setTimeout(finish, ms);
    document.addEventListener("visibilitychange", finish);
  });

  async function requestChange() {
    request = new AbortController();
    const timer = setTimeout(() => request.abort(), TIMEOUT_MS);
    const sent = performance.now();
    try {
      const response = await fetch(`${PAGE}?${state}${suffix}`, { cache: "no-store", signal: request.signal });
      const received = performance.now();
      const change = response.ok ? await response.json() : null;
      return suffix !== "" && change ? sinceRequest(change, sent, received) : change;
    } finally {
      clearTimeout(timer);
    }
  }

  // Lets the page reload if the folder has changed after the page was requested, and before this script was. Returns null if
  // that isn't certain: then the script asks again.
  function sinceRequest(change, sent, received) {
    const requested = performance.getEntriesByType("navigation")[0]?.requestStart ?? 0;
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
    state = change.state;
    suffix = "";
    showRemarks(change);
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
      const follows = inner.querySelector(`script[src="${SCRIPT}"]`) !== null;
      if (!follows && (inner.styleSheets.length > 0 || hasStyledFrame(parent[number]))) return true;
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
        suffix = "-first";
        request?.abort();
      });
      link.after(next);
    }
  }

  // Styles are set one by one, which a Content-Security-Policy without 'unsafe-inline' permits.
  function element(name, text, styles) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [property, value] of Object.entries(styles)) made.style.setProperty(property, value);
    return made;
  }

  function remark({ file, line, severity, message }) {
    const place = line === null ? file : `${file}:${line}`;
    return element("p", `${place}: ${severity}: ${message}`, { "white-space": "pre-wrap", margin: "1em 0" });
  }

  function show(made, hide) {
    const close = element("button", "Hide", { font: "inherit", padding: "0.3em 1em" });
    close.addEventListener("click", () => {
      made.remove();
      hide();
    });
    made.append(close);
    document.documentElement.append(made);
    overlay = made;
  }

  function showRemarks({ failure, warnings, warning_count: count }) {
    overlay?.remove();
    overlay = null;
    if (failure) showFailure(failure);
    else if (count > 0) showWarnings(warnings, count);
  }

  function showFailure({ message, diagnostics }) {
    const made = element("cannery-overlay", "", { ...LOOK, inset: "0", padding: "2rem" });
    made.setAttribute("role", "alert");
    made.append(element("h1", message, { font: "inherit", "font-size": "1.4em", color: "#ff8a80" }));
    made.append(...diagnostics.map(remark));
    made.append(element("p", "The last version is still served. This disappears when the error is fixed.", { color: "#aaa" }));
    show(made, () => {});
  }

  // A notice in a corner, which stays hidden until there is another warning.
  function showWarnings(warnings, count) {
    const names = warnings.map((warning) => JSON.stringify(warning));
    const hidden = hiddenWarnings();
    if (names.every((name) => hidden.includes(name))) return;

    const made = element("cannery-warnings", "", {
      ...LOOK, right: "1rem", bottom: "1rem", "max-width": "min(40rem, 80vw)", "max-height": "40vh", padding: "0.5rem 1rem",
      "font-size": "13px", "border-left": "4px solid #ffca28",
    });
    made.setAttribute("role", "status");
    made.append(...warnings.map(remark));
    if (count > warnings.length) made.append(element("p", `${count - warnings.length} more warnings are in the terminal.`, {}));
    show(made, () => setHidden(names));
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

  async function follow() {
    let wait = PAUSE_MS;
    for (;;) {
      // A hidden tab holds no connection: browsers open only six to a server.
      if (document.visibilityState === "hidden") {
        await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
        wait = PAUSE_MS;
        continue;
      }
      try {
        const change = await requestChange();
        retry = RETRY_MS;
        if (change) {
          wait = PAUSE_MS;
          forgetFixedWarnings(change);
          if (needsReload(change)) {
            // The new page has a script of its own. If the user refuses to leave this one, it no longer follows the folder.
            location.reload();
            return;
          }
          apply(change);
        } else {
          await pause(wait);
          wait = Math.min(wait * 1.5, PAUSE_MAX_MS);
        }
      } catch {
        // The server restarts, the laptop slept, or the tab was hidden.
        await pause(retry);
        retry = Math.min(retry * 2, RETRY_MAX_MS);
      }
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") request?.abort();
  });
  if (navigator.serviceWorker?.controller) {
    console.warn("A service worker answers for this page, maybe with old versions of the site. Unregister it in the developer tools.");
  }
  follow();
})();
