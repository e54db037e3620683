// Live reload: waits until the folder changes, then reloads the page, or exchanges its style sheets alone.
// `cannery serve` adds this script to each page; a deployed site doesn't have it.
(() => {
  "use strict";

  const PAGE = "/__/cannery/live";
  // Long enough to be rare, and shorter than the timeouts of servers and proxies.
  const TIMEOUT_MS = 25_000;
  // Over HTTP/2 and HTTP/3 the server answers at once.
  const PAUSE_MS = 100;
  const RETRY_MAX_MS = 3_000;

  let state = "@STATE@";
  // The first request is answered at once: the page may have been loaded while the folder could not be compiled.
  let suffix = "-first";
  let retry = PAUSE_MS;
  let request = null;
  let overlay = null;

  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  async function requestChange() {
    request = new AbortController();
    const timer = setTimeout(() => request.abort(), TIMEOUT_MS);
    try {
      const response = await fetch(`${PAGE}?${state}${suffix}`, { cache: "no-store", signal: request.signal });
      return response.ok ? await response.json() : null;
    } finally {
      clearTimeout(timer);
    }
  }

  function apply(change) {
    if (change.action === "reload") {
      location.reload();
      return;
    }
    if (change.action === "styles") {
      exchangeStyles(change.state);
    }
    state = change.state;
    suffix = "";
    showFailure(change.failure);
  }

  // The old style sheet stays until the new one is loaded, so that the page never shows without styles.
  function exchangeStyles(version) {
    for (const link of document.querySelectorAll('link[rel~="stylesheet"][href]')) {
      const url = new URL(link.href);
      if (url.origin !== location.origin) continue;
      url.searchParams.set("cannery", version);
      const next = link.cloneNode();
      next.href = url.href;
      next.addEventListener("load", () => link.remove());
      next.addEventListener("error", () => next.remove());
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

  function showFailure(failure) {
    overlay?.remove();
    overlay = null;
    if (!failure) return;

    overlay = element("cannery-overlay", "", {
      position: "fixed", inset: "0", "z-index": "2147483647", overflow: "auto", padding: "2rem",
      background: "rgb(20 20 24 / 95%)", color: "#eee", font: "16px/1.5 ui-monospace, monospace",
      "text-align": "left", display: "block",
    });
    overlay.setAttribute("role", "alert");
    overlay.append(element("h1", failure.message, { font: "inherit", "font-size": "1.4em", color: "#ff8a80" }));
    for (const { file, line, severity, message } of failure.diagnostics) {
      const place = line === null ? file : `${file}:${line}`;
      overlay.append(element("p", `${place}: ${severity}: ${message}`, { "white-space": "pre-wrap", margin: "1em 0" }));
    }
    overlay.append(element("p", "The last version is still served. This disappears when the error is fixed.", { color: "#aaa" }));
    const close = element("button", "Hide", { font: "inherit", padding: "0.3em 1em" });
    close.addEventListener("click", () => overlay?.remove());
    overlay.append(close);
    document.documentElement.append(overlay);
  }

  async function follow() {
    for (;;) {
      // A hidden tab holds no connection: browsers open only six to a server.
      if (document.visibilityState === "hidden") {
        await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
        continue;
      }
      try {
        const change = await requestChange();
        retry = PAUSE_MS;
        if (change) apply(change);
        else await pause(PAUSE_MS);
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
