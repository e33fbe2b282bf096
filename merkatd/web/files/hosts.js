// Hosts as bars of VMs by share; only visible rows are in the document, even of a thousand hosts.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const ROW_PX = 30;
  const ROOMY_PX = 52;
  const ROOMY_HOSTS = 7;
  const SPARE_ROWS = 6;
  const MOST_ROWS = 16;
  const COLOURS = 8;
  const LABEL_PART = 0.12;

  const drawn = new WeakMap();

  function draw() {
    for (const box of document.querySelectorAll("[data-hosts]")) {
      if (!drawn.has(box)) drawn.set(box, chart(box));
      drawn.get(box)();
    }
  }

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function chart(box) {
    const list = element("ol", "hostrows");
    const window_ = element("div", "hostwindow");
    window_.tabIndex = 0;
    window_.setAttribute("role", "group");
    window_.setAttribute("aria-label", "Hosts, each a bar of its VMs by share of CPU");
    window_.append(list);
    box.replaceChildren(window_);
    let read = null;
    let hosts = [];
    const none = element("li", "quiet", "No host has VMs of yours.");
    const rows = new Map();
    let waiting = false;
    let rowPx = ROW_PX;

    function update() {
      if (box.dataset.hosts === read) return;
      read = box.dataset.hosts;
      hosts = JSON.parse(read);
      rowPx = hosts.length > ROOMY_HOSTS ? ROW_PX : ROOMY_PX;
      window_.classList.toggle("roomy", rowPx === ROOMY_PX);
      window_.style.height = `${Math.max(Math.min(hosts.length, MOST_ROWS), 1) * rowPx + 2}px`;
      list.style.height = `${hosts.length * rowPx}px`;
      none.remove();
      if (!hosts.length) list.append(none);
      for (const at of [...rows.keys()]) if (at >= hosts.length) drop(at);
      list.classList.add("moving");
      setTimeout(() => list.classList.remove("moving"), 400);
      for (const [at, row] of rows) fill(row, at);
      show();
    }

    // Draws visible rows and a few around them; removes the others from the document.
    function show() {
      waiting = false;
      const first = Math.max(Math.floor(window_.scrollTop / rowPx) - SPARE_ROWS, 0);
      const seen = Math.ceil(window_.clientHeight / rowPx) + 2 * SPARE_ROWS;
      const last = Math.min(first + seen, hosts.length);
      const free = [];
      for (const at of [...rows.keys()]) {
        if (at < first || at >= last) {
          const row = rows.get(at);
          if (row.item.contains(document.activeElement)) continue;
          rows.delete(at);
          free.push(row);
        }
      }
      for (let at = first; at < last; at += 1) {
        if (rows.has(at)) continue;
        const row = free.pop() || made();
        rows.set(at, row);
        fill(row, at);
        if (!row.item.isConnected) list.append(row.item);
      }
      for (const row of free) row.item.remove();
    }

    function drop(at) {
      rows.get(at).item.remove();
      rows.delete(at);
    }

    function made() {
      const item = element("li", "hostrow");
      const name = element("a", "hostname");
      const bar = element("span", "hostbar");
      const memory = element("span", "hostbar hostmemory");
      memory.setAttribute("aria-hidden", "true");
      const total = element("span", "hosttotal");
      item.append(name, bar, total, memory);
      return { item, name, bar, memory, total, of: null, at: -1 };
    }

    function fill(row, at) {
      const host = hosts[at];
      if (row.at !== at) {
        row.item.style.transform = `translateY(${at * rowPx}px)`;
        row.item.setAttribute("aria-posinset", at + 1);
        row.at = at;
      }
      if (row.of === host) return;
      row.of = host;
      row.item.setAttribute("aria-setsize", hosts.length);
      row.item.classList.toggle("off", host.state !== "on");
      row.name.textContent = host.name;
      row.name.href = `/hosts/${host.id}`;
      const sum = (place) => host.vms.reduce((all, one) => all + one[place], 0);
      const cpu = sum(3);
      // During migrations shares can add up to more than the host; then the bar is scaled to their sum.
      const whole = Math.max(cpu, 1);
      const bars = row.bar.children;
      host.vms.forEach(([id, name, owner, part], place) => {
        const one = bars[place] || row.bar.appendChild(element("a", "vmbar"));
        const words = name || `VM ${id}`;
        one.href = `/vms/${id}`;
        one.tabIndex = -1;
        one.className = `vmbar t${owner % COLOURS}`;
        one.style.width = `${(100 * part / whole).toFixed(2)}%`;
        one.title = `${words}: ${(100 * part).toFixed(1)} % of the host's CPU`;
        one.textContent = part >= LABEL_PART ? words : "";
        one.setAttribute("aria-label", one.title);
      });
      while (bars.length > host.vms.length) row.bar.lastChild.remove();
      if (rowPx === ROOMY_PX) memory(row, host, Math.max(sum(4), 1));
      const state = host.state === "on" ? "" : ` ${host.state}`;
      row.total.textContent = `${Math.min(Math.round(100 * cpu), 100)} %${state}`;
      row.name.setAttribute("aria-label", `${host.name}: ${host.vms.length} VMs, ${row.total.textContent} of CPU`);
    }

    function memory(row, host, whole) {
      const bars = row.memory.children;
      host.vms.forEach(([id, name, owner, , part], place) => {
        const one = bars[place] || row.memory.appendChild(element("span", "vmbar"));
        one.className = `vmbar t${owner % COLOURS}`;
        one.style.width = `${(100 * part / whole).toFixed(2)}%`;
        one.title = `${name || `VM ${id}`}: ${(100 * part).toFixed(1)} % of the host's memory`;
      });
      while (bars.length > host.vms.length) row.memory.lastChild.remove();
    }

    window_.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(show);
    }, { passive: true });
    return update;
  }

  document.addEventListener("fresh", draw);
  draw();
});
