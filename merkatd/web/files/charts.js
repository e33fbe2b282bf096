// Charts of the last periods, with the values at the pointer, or at the period that keys select.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const HEIGHT_PX = 132;
  const LEAST_WIDTH_PX = 200;
  const COLOURS = 4;
  const FAR = 10;

  const drawn = new WeakMap();

  function draw() {
    for (const box of document.querySelectorAll("[data-charts]")) {
      if (!drawn.has(box)) drawn.set(box, charts(box));
      drawn.get(box)();
    }
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const shown = (value) =>
    value === null || value === undefined ? "–"
      : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en")
        : Math.abs(value) >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3);

  const stamp = (at_s) => new Date(1000 * at_s).toISOString();
  const MINUTE_S = 60;
  const HOUR_S = 3600;
  const DAY_S = 86400;
  // Steps of the time axis: multiples of them are whole minutes, hours and days in UTC.
  const STEPS_S = [
    1, 5, 10, 30, ...[1, 2, 5, 10, 20, 30].map((step) => step * MINUTE_S),
    ...[1, 2, 3, 6, 12].map((step) => step * HOUR_S), ...[1, 2, 5, 10].map((step) => step * DAY_S),
  ];
  // The time at an axis: with seconds, without them, or the date.
  const tickText = (at_s, step_s) =>
    step_s >= DAY_S || (step_s >= HOUR_S && at_s % DAY_S === 0) ? stamp(at_s).slice(5, 10)
      : stamp(at_s).slice(11, step_s >= MINUTE_S ? 16 : 19);
  const moment = (at_s, span_s) => (span_s > DAY_S ? `${stamp(at_s).slice(0, 10)} ` : "") + stamp(at_s).slice(11, 19);

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function charts(box) {
    const plots = new Map();
    let read = null;
    let found = null;
    // The period that the visitor points at; it stays selected when new periods move its position.
    let chosen = null;
    let moving = false;

    function update() {
      if (box.dataset.charts === read) return;
      read = box.dataset.charts;
      found = JSON.parse(read);
      moving = true;
      for (const [title, plot] of plots) {
        if (!found.charts.some((one) => one.title === title)) remove(title, plot);
      }
      box.classList.toggle("nothing", !found.charts.length);
      let more = false;
      found.charts.forEach((one, place) => {
        const names = one.lines.map((line) => line.name).join();
        const old = plots.get(one.title);
        const focused = old && old.figure.contains(document.activeElement);
        if (old && old.names !== names) remove(one.title, old);
        if (!plots.has(one.title)) {
          const plot = made(one, names);
          plots.set(one.title, plot);
          box.insertBefore(plot.figure, box.children[place] ?? null);
          if (focused) plot.chart.root.focus();
          more = true;
        }
        plots.get(one.title).set(one);
      });
      if (more) fit();
      moving = false;
      pointAgain();
    }

    function pointAgain() {
      const last = found.period.length - 1;
      if (chosen !== null && last >= 0) {
        const where = found.period.findIndex((period) => period >= chosen);
        chosen = found.period[where < 0 ? last : where];
      }
      for (const plot of plots.values()) plot.point();
    }

    function remove(title, plot) {
      plot.chart.destroy();
      plot.figure.remove();
      plots.delete(title);
    }

    function made(one, names) {
      const figure = element("figure");
      const caption = element("figcaption");
      const when = element("small", "when");
      caption.append(element("span", "", `${one.title}, ${one.unit}`));
      const values = one.lines.map((line, at) => {
        const entry = element("span", "entry");
        const value = element("strong");
        entry.append(element("i", `key l${at % COLOURS}${line.dashed ? " dashed" : ""}`), `${line.name} `);
        entry.append(value);
        caption.append(entry);
        return value;
      });
      caption.append(when);
      figure.append(caption);
      const plot = { figure, names, lines: one.lines, chart: null, set, point };

      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      const series = one.lines.map((line, at) => {
        const stroke = colour(`--line-${at % COLOURS}`);
        return { stroke, width: 1.5, fill: at === 0 ? `${stroke}22` : undefined, dash: line.dashed ? [4, 3] : undefined, points: { show: line.values.length === 1, size: 5 } };
      });
      plot.chart = new uPlot({
        width: LEAST_WIDTH_PX,
        height: HEIGHT_PX,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
        axes: [
          { ...axis, size: 24, space: 60, incrs: STEPS_S, values: (_, ticks, _axis, _space, step_s) => ticks.map((tick) => tickText(tick, step_s)) },
          { ...axis, size: 50, values: (_, ticks) => ticks.map(shown) },
        ],
        series: [{}, ...series],
        hooks: { setCursor: [moved] },
      }, [[], ...one.lines.map(() => [])], figure);

      const slider = plot.chart.root;
      slider.tabIndex = 0;
      slider.setAttribute("role", "slider");
      slider.setAttribute("aria-label", `${one.title}, ${one.unit}, by period; arrow keys select a period, Enter opens it`);
      slider.addEventListener("keydown", key);
      slider.addEventListener("focus", () => { if (slider.matches(":focus-visible")) choose(chosen === null ? last() : found.period.indexOf(chosen)); });
      slider.addEventListener("blur", () => plot.chart.setCursor({ left: -10, top: -10 }));
      plot.chart.over.addEventListener("click", open);

      const last = () => found.period.length - 1;

      function set(fresh) {
        plot.lines = fresh.lines;
        // In a batch, so that the selected period is found by the new scale.
        plot.chart.batch(() => plot.chart.setData([found.at_s, ...fresh.lines.map((line) => line.values)]));
        slider.setAttribute("aria-valuemin", found.period[0] ?? 0);
        slider.setAttribute("aria-valuemax", found.period[last()] ?? 0);
        tell();
      }

      // The visitor moved the cursor. A move by an update (`moving`) selects no period.
      function moved() {
        if (moving || !found || !plot.chart) return;
        const there = plot.chart.cursor.idx;
        chosen = there === null || there === undefined ? null : found.period[there] ?? null;
        for (const other of plots.values()) if (other !== plot) other.point();
        tell();
      }

      // Shows the values of the chosen period, or of the last one.
      function tell() {
        const there = chosen === null ? -1 : found.period.indexOf(chosen);
        const pointed = there >= 0;
        const where = pointed ? there : last();
        const numbers = plot.lines.map((line) => shown(line.values[where]));
        numbers.forEach((number, place) => { values[place].textContent = number; });
        const period = where < 0 ? "no period yet" : `period ${found.period[where]}, ${moment(found.at_s[where], found.at_s[last()] - found.at_s[0])} UTC`;
        when.textContent = pointed ? period : "";
        slider.setAttribute("aria-valuenow", found.period[where] ?? 0);
        slider.setAttribute("aria-valuetext", `${period}: ${plot.lines.map((line, place) => `${line.name} ${numbers[place]}`).join(", ")} ${one.unit}`);
      }

      function choose(where) {
        const there = Math.min(Math.max(where, 0), last());
        if (there < 0) return;
        chosen = found.period[there];
        pointAgain();
      }

      // Moves the cursor to the chosen period.
      function point() {
        moving = true;
        const left = chosen === null ? -10 : plot.chart.valToPos(found.at_s[found.period.indexOf(chosen)], "x");
        plot.chart.setCursor({ left, top: chosen === null ? -10 : 1 });
        moving = false;
        tell();
      }

      function key(event) {
        const now = chosen === null ? last() : found.period.indexOf(chosen);
        const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - FAR, PageUp: now + FAR, Home: 0, End: last() }[event.key];
        if (event.key === "Enter") open();
        if (to === undefined) return;
        event.preventDefault();
        choose(to);
      }

      function open() {
        if (chosen !== null) location.assign(`/periods/${chosen}`);
      }

      return plot;
    }

    // The number of charts per row is known only after all are added.
    function fit() {
      let changed = false;
      for (const { chart, figure } of plots.values()) {
        const width = Math.max(figure.clientWidth, LEAST_WIDTH_PX);
        if (chart.width === width) continue;
        chart.batch(() => chart.setSize({ width, height: HEIGHT_PX }));
        changed = true;
      }
      return changed;
    }

    function resized() {
      moving = true;
      const changed = fit();
      moving = false;
      if (changed) pointAgain();
    }

    new ResizeObserver(resized).observe(box);
    // Charts contain their colours, so new colours need new charts.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const [title, plot] of plots) remove(title, plot);
      read = null;
      update();
    });
    return update;
  }

  document.addEventListener("fresh", draw);
  draw();
});
