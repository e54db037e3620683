// Uses an API from a page of an allowed origin and from one of another, in headless Chromium. Prints a line of JSON for each page: the
// status, `Location` and text that each request got, or "refused".
import { launch } from "./chromium.mjs";

const [allowed, other, api] = process.argv.slice(2);
const browser = await launch();
try {
  for (const url of [allowed, other]) {
    const page = await browser.newPage();
    await page.goto(url, { waitUntil: "load", timeout: 60000 });
    const results = await page.evaluate(async (api) => {
      const results = {};
      const ask = async (name, path, options) => {
        try {
          const response = await fetch(api + path, options);
          results[name] = [response.status, response.headers.get("location"), await response.text()];
        } catch {
          results[name] = "refused";
        }
      };
      const post = (text, options) => ({
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(text), ...options,
      });
      const credentials = "include";
      await ask("list", "/notes");
      await ask("stranger", "/notes", post("text"));
      const events = new EventSource(api + "/events", { withCredentials: true });
      const note = new Promise((resolve) => events.addEventListener("note", (event) => resolve(event.data)));
      results.events = await new Promise((resolve) => {
        events.onopen = () => resolve("open");
        events.onerror = () => resolve("refused");
      });
      await ask("log in", "/session", { method: "POST", body: new URLSearchParams({ user: "Ada" }), credentials });
      await ask("add", "/notes", post("from a page", { credentials }));
      if (results.events === "open") results.note = await note;
      events.close();
      await ask("invalid", "/notes", post("", { credentials }));
      await ask("missing", "/nothing");
      await ask("method", "/notes", { method: "DELETE", credentials });
      await ask("header", "/notes", { headers: { "x-other": "1" } });
      return results;
    }, api);
    console.log(JSON.stringify(results));
    await page.close();
  }
} finally {
  await browser.close();
}
