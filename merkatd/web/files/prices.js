// The prices of the last periods: a chart for each resource, with what it was where the pointer is.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const NAMES = { cpu: "A core", memory: "A GiB", network: "A Mbit/s", disk: "A MiB/s" };
  const HEIGHT_PX = 132;
  const LINES = ["--line-0", "--line-1", "--line-2", "--line-3"];

  for (const box of document.querySelectorAll("[data-prices]")) chart(box);

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const shown = (value) =>
    value === null || value === undefined ? "–" : value >= 100 ? value.toFixed(0) : value.toPrecision(3);

  function chart(box) {
    const plots = new Map();

    async function draw() {
      const answer = await window.merkat.fetch(box.dataset.prices);
      if (!answer.ok) return;
      const { resources, markets } = await answer.json();
      const many = Object.keys(markets).length > 1;
      for (const [market, found] of Object.entries(markets)) {
        resources.forEach((resource, at) => {
          const key = `${market} ${resource}`;
          if (!plots.has(key)) plots.set(key, made(many ? `${NAMES[resource]}, ${market}` : NAMES[resource], at));
          const plot = plots.get(key);
          const values = found[resource];
          const now = values[values.length - 1];
          plot.now.textContent = shown(now);
          plot.of = found;
          plot.chart.setData([found.period, values]);
        });
      }
    }

    function made(name, at) {
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const title = document.createElement("span");
      title.textContent = `${name}, credits a period`;
      const now = document.createElement("strong");
      const hover = document.createElement("small");
      caption.append(title, now, hover);
      figure.append(caption);
      box.append(figure);
      const plot = { now, of: null };
      const line = colour(LINES[at % LINES.length]);
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      plot.chart = new uPlot({
        width: Math.max(box.clientWidth, 200),
        height: HEIGHT_PX,
        legend: { show: false },
        cursor: { y: false, sync: { key: "prices" }, drag: { x: false, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
        axes: [
          { ...axis, size: 24, values: (_, ticks) => ticks.map((one) => (Number.isInteger(one) ? one : "")) },
          { ...axis, size: 44, values: (_, ticks) => ticks.map(shown) },
        ],
        series: [{}, { stroke: line, width: 1.5, fill: `${line}22`, points: { show: false } }],
        hooks: {
          setCursor: [(self) => {
            const where = self.cursor.idx;
            hover.textContent = where === null || where === undefined || !plot.of
              ? "" : `period ${plot.of.period[where]}: ${shown(self.data[1][where])}`;
          }],
        },
      }, [[], []], figure);
      plot.chart.over.addEventListener("click", () => {
        const where = plot.chart.cursor.idx;
        if (plot.of && where !== null && where !== undefined) location.assign(`/periods/${plot.of.period[where]}`);
      });
      plot.chart.root.setAttribute("role", "img");
      plot.chart.root.setAttribute("aria-label", `${name}: its price over the last periods; the table has the same`);
      return plot;
    }

    new ResizeObserver(() => {
      for (const plot of plots.values()) plot.chart.setSize({ width: Math.max(box.clientWidth, 200), height: HEIGHT_PX });
    }).observe(box);
    window.merkat.draws.push(draw);
    draw();
  }
});
