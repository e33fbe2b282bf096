// Keeps a page up to date: after each period it is fetched again, and what changed is changed.
"use strict";

(() => {
  const main = document.getElementById("main");
  const said = document.getElementById("said");
  const address = document.body.dataset.live;
  if (!main || !address) return;

  const LIVE = { headers: { "X-Merkat-Live": "1" }, credentials: "same-origin" };
  const NEVER_BUSIER_MS = 900;

  window.merkat = { fetch: (url) => fetch(url, LIVE), draws: [] };

  // What a person is at stays as it is: fields, open details, scrolled tables, and what scripts drew.
  const isKept = (node) =>
    node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-keep");

  const sameKind = (a, b) =>
    a.nodeType === b.nodeType && a.nodeName === b.nodeName;

  function morph(from, to) {
    if (isKept(from)) return;
    if (from.nodeType === Node.TEXT_NODE) {
      if (from.data !== to.data) from.data = to.data;
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) return;
    if (from.matches("form:not(.button)")) return;
    attributes(from, to);
    children(from, to);
  }

  function attributes(from, to) {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
  }

  function children(from, to) {
    const wanted = [...to.childNodes];
    wanted.forEach((node, at) => {
      const there = from.childNodes[at];
      if (!there) from.append(document.adoptNode(node));
      else if (sameKind(there, node)) morph(there, node);
      else there.replaceWith(document.adoptNode(node));
    });
    while (from.childNodes.length > wanted.length) from.lastChild.remove();
  }

  let fetching = false;
  let again = false;
  let lastMs = 0;

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
      await Promise.all([page(), ...window.merkat.draws.map((draw) => draw())]);
    } catch {
      note("The daemon does not answer; what you see is as it was.");
    } finally {
      fetching = false;
      if (again) refresh();
    }
  }

  // The answer to a form is shown as it was: only what can be asked for again is.
  const canAskAgain = () => !document.querySelector("[aria-invalid], .wrong") && fromGet;
  const entry = performance.getEntriesByType("navigation")[0];
  const fromGet = !/\/(quote|bid|change|submit)$/.test(location.pathname) && Boolean(entry);

  async function page() {
    if (!canAskAgain()) return;
    const answer = await window.merkat.fetch(location.href);
    if (answer.status === 401) {
      location.assign("/sign-in");
      return;
    }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const there = fresh.getElementById("main");
    if (there) children(main, there);
    document.body.dataset.seen = String(Number(document.body.dataset.seen || 0) + 1);
  }

  function note(text) {
    if (said.textContent !== text) said.textContent = text;
  }

  const events = new EventSource(address);
  events.addEventListener("period", (event) => {
    setTimeout(refresh, Math.random() * JSON.parse(event.data).spread_ms);
  });
  events.addEventListener("change", refresh);
  events.addEventListener("open", () => note(""));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && again) refresh();
  });
  window.addEventListener("pagehide", () => events.close());
})();
