// Lines over the last periods, with what they were where the pointer is, or where the arrow keys lead.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const HEIGHT_PX = 132;
  const LEAST_WIDTH_PX = 200;
  const COLOURS = 4;
  const FAR = 10;

  for (const box of document.querySelectorAll("[data-charts]")) charts(box);

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const shown = (value) =>
    value === null || value === undefined ? "–"
      : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en")
        : Math.abs(value) >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3);

  const moment = (at_s) => new Date(1000 * at_s).toISOString().slice(11, 19);

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function charts(box) {
    const plots = new Map();
    let found = null;

    async function draw() {
      const answer = await window.merkat.fetch(box.dataset.charts);
      if (!answer.ok) return;
      found = await answer.json();
      for (const [title, plot] of plots) {
        if (!found.charts.some((one) => one.title === title)) remove(title, plot);
      }
      box.classList.toggle("nothing", !found.charts.length);
      let more = false;
      for (const one of found.charts) {
        const names = one.lines.map((line) => line.name).join();
        if (plots.has(one.title) && plots.get(one.title).names !== names) remove(one.title, plots.get(one.title));
        if (!plots.has(one.title)) {
          plots.set(one.title, made(one, names));
          more = true;
        }
        plots.get(one.title).set(one);
      }
      if (more) fit();
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
        if (one.lines.length > 1) entry.append(element("i", `key l${at % COLOURS}${line.dashed ? " dashed" : ""}`), `${line.name} `);
        entry.append(value);
        caption.append(entry);
        return value;
      });
      caption.append(when);
      figure.append(caption);
      box.append(figure);
      const plot = { figure, names, lines: one.lines, chart: null, set };

      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      const series = one.lines.map((line, at) => {
        const stroke = colour(`--line-${at % COLOURS}`);
        return { stroke, width: 1.5, fill: at === 0 ? `${stroke}22` : undefined, dash: line.dashed ? [4, 3] : undefined, points: { show: line.values.length === 1, size: 5 } };
      });
      plot.chart = new uPlot({
        width: LEAST_WIDTH_PX,
        height: HEIGHT_PX,
        legend: { show: false },
        cursor: { y: false, sync: { key: box.dataset.charts }, drag: { x: false, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
        axes: [
          { ...axis, size: 24, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick : "")) },
          { ...axis, size: 50, values: (_, ticks) => ticks.map(shown) },
        ],
        series: [{}, ...series],
        hooks: { setCursor: [tell] },
      }, [[], ...one.lines.map(() => [])], figure);

      const slider = plot.chart.root;
      slider.tabIndex = 0;
      slider.setAttribute("role", "slider");
      slider.setAttribute("aria-label", `${one.title}, ${one.unit}, by period; arrow keys go through them, Enter opens one`);
      slider.addEventListener("keydown", key);
      slider.addEventListener("focus", () => { if (slider.matches(":focus-visible")) at(plot.chart.cursor.idx ?? last()); });
      slider.addEventListener("blur", () => plot.chart.setCursor({ left: -10, top: -10 }));
      plot.chart.over.addEventListener("click", open);

      const last = () => found.period.length - 1;

      function set(fresh) {
        plot.lines = fresh.lines;
        plot.chart.setData([found.period, ...fresh.lines.map((line) => line.values)]);
        slider.setAttribute("aria-valuemin", found.period[0] ?? 0);
        slider.setAttribute("aria-valuemax", found.period[last()] ?? 0);
        tell();
      }

      // What it is at the cursor, or now.
      function tell() {
        if (!found || !plot.chart) return;
        const there = plot.chart.cursor.idx;
        const pointed = there !== null && there !== undefined && there <= last();
        const where = pointed ? there : last();
        const numbers = plot.lines.map((line) => shown(line.values[where]));
        numbers.forEach((number, place) => { values[place].textContent = number; });
        const period = where < 0 ? "no period yet" : `period ${found.period[where]}, ${moment(found.at_s[where])}`;
        when.textContent = pointed ? period : "";
        slider.setAttribute("aria-valuenow", found.period[where] ?? 0);
        slider.setAttribute("aria-valuetext", `${period}: ${plot.lines.map((line, place) => `${line.name} ${numbers[place]}`).join(", ")} ${one.unit}`);
      }

      function at(where) {
        const there = Math.min(Math.max(where, 0), last());
        if (there >= 0) plot.chart.setCursor({ left: plot.chart.valToPos(found.period[there], "x"), top: 1 });
      }

      function key(event) {
        const now = plot.chart.cursor.idx ?? last();
        const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - FAR, PageUp: now + FAR, Home: 0, End: last() }[event.key];
        if (event.key === "Enter") open();
        if (to === undefined) return;
        event.preventDefault();
        at(to);
      }

      function open() {
        const where = plot.chart.cursor.idx;
        if (where !== null && where !== undefined) location.assign(`/periods/${found.period[where]}`);
      }

      return plot;
    }

    // How many stand side by side is known once all are there.
    function fit() {
      for (const { chart, figure } of plots.values()) {
        const width = Math.max(figure.clientWidth, LEAST_WIDTH_PX);
        if (chart.width !== width) chart.setSize({ width, height: HEIGHT_PX });
      }
    }

    new ResizeObserver(fit).observe(box);
    // Colours are drawn, so other ones are drawn anew.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const [title, plot] of plots) remove(title, plot);
      draw();
    });
    window.merkat.draws.push(draw);
    draw();
  }
});
