// Live updates of a page: fetches it after each period, and changes the parts that differ.
"use strict";

(() => {
  const main = document.getElementById("main");
  const said = document.getElementById("said");
  const address = document.body.dataset.live;
  if (!main || !address) return;

  const LIVE = { headers: { "X-Merkat-Live": "1" }, credentials: "same-origin" };
  const NEVER_BUSIER_MS = 900;
  const SOON_MS = 2000;
  const AGAIN_MS = 10000;
  const ALWAYS_THERE = "/files/merkat.svg";

  // Nodes that a visitor uses are left unchanged: fields, open details, scrolled tables, drawings.
  const isKept = (node) =>
    node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-keep");

  // Identifies the old node of a new node, so that added and removed nodes don't shift the others.
  const key = (node) =>
    node.nodeType !== Node.ELEMENT_NODE ? node.nodeName
      : [node.nodeName, node.id, node.getAttribute("aria-labelledby"), node.getAttribute("action"), isKept(node)].join();

  function morph(from, to) {
    if (isKept(from)) {
      // Scripts draw the data in the attributes, which has the same period as the page.
      attributes(from, to, (name) => name.startsWith("data-"));
      return;
    }
    if (from.nodeType === Node.TEXT_NODE) {
      if (from.data !== to.data) from.data = to.data;
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) return;
    if (from.matches("form:not(.button)")) return;
    attributes(from, to, (name) => name !== "open");
    children(from, to);
  }

  function attributes(from, to, ours) {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && ours(name)) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (ours(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
  }

  function children(from, to) {
    let there = from.firstChild;
    for (const node of [...to.childNodes]) {
      const wanted = key(node);
      let old = there;
      while (old && key(old) !== wanted) old = old.nextSibling;
      if (!old) {
        from.insertBefore(document.adoptNode(node), there);
        continue;
      }
      while (there !== old) {
        const gone = there;
        there = there.nextSibling;
        gone.remove();
      }
      morph(old, node);
      there = old.nextSibling;
    }
    while (there) {
      const gone = there;
      there = there.nextSibling;
      gone.remove();
    }
  }

  let fetching = false;
  let again = false;
  let lastMs = 0;
  let silentSince = null;

  async function refresh() {
    if (fetching || document.hidden) {
      again = true;
      return;
    }
    fetching = true;
    again = false;
    try {
      const wait = lastMs + NEVER_BUSIER_MS - performance.now();
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
      lastMs = performance.now();
      await page();
    } catch {
      silentSince ??= new Date().toISOString().slice(11, 19);
      note(`The daemon has not answered since ${silentSince} UTC; this page shows old data.`);
    } finally {
      fetching = false;
      if (again) refresh();
    }
  }

  // The answer to a form is not updated: its address can't be fetched with GET.
  const isAnswer = "answer" in document.body.dataset;

  async function page() {
    if (isAnswer || document.querySelector("[aria-invalid], .wrong")) {
      await fetch(ALWAYS_THERE, { method: "HEAD", cache: "no-store" });
      heard();
      return;
    }
    const answer = await fetch(location.href, LIVE);
    if (answer.status === 401) {
      location.assign(`/sign-in?${new URLSearchParams({ to: location.pathname + location.search })}`);
      return;
    }
    if (answer.status >= 500) throw new Error(answer.statusText);
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const there = fresh.getElementById("main");
    if (there) children(main, there);
    document.dispatchEvent(new Event("fresh"));
    heard();
  }

  function heard() {
    silentSince = null;
    note("");
  }

  function note(text) {
    if (said.textContent !== text) said.textContent = text;
  }

  const soon = (event) => setTimeout(refresh, Math.random() * JSON.parse(event.data).spread_ms);
  let events = null;

  function listen() {
    events = new EventSource(address);
    events.addEventListener("period", soon);
    events.addEventListener("change", soon);
    events.addEventListener("error", () => {
      // The answer to the page's own request shows the reason.
      setTimeout(refresh, SOON_MS * Math.random());
      // The browser reconnects by itself, unless it was refused; then reconnect here.
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS * (1 + Math.random()));
    });
  }

  listen();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && again) refresh();
  });
  window.addEventListener("pagehide", () => events.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) { listen(); refresh(); } });
})();
