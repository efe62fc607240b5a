"use strict";
// Draws each chart in the width that it has, in the colours of the page, anew where one of them changes.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const charts = [...document.querySelectorAll("script[data-chart]")].map((script) => ({
    place: document.getElementById(`chart-${script.dataset.chart}`),
    spec: JSON.parse(script.textContent),
  }));

  const fitted = (spec, width) => {
    const copy = structuredClone(spec);
    // Names on the left take their room out of the same width; where it is narrow, they get less of it.
    const names = width < 600 ? 70 : 120;
    for (const view of copy.vconcat ?? [copy]) view.width = Math.max(width - names - (copy.vconcat ? 50 : 140), 120);
    const axes = (node) => {
      if (node && typeof node === "object") {
        if (node.maxExtent) node.minExtent = node.maxExtent = names;
        if (node.labelLimit) node.labelLimit = Math.min(node.labelLimit, 2 * names);
        Object.values(node).forEach(axes);
      }
    };
    (copy.vconcat ?? [copy]).forEach((view) => (view.layer ?? [view]).forEach((layer) => axes(layer.encoding)));
    return copy;
  };

  const config = () => {
    const ink = getComputedStyle(document.body).color;
    const rule = getComputedStyle(document.documentElement).getPropertyValue("--line");
    const labels = { labelColor: ink, titleColor: ink };
    return {
      background: "transparent",
      font: "system-ui, sans-serif",
      title: { color: ink },
      axis: { ...labels, gridColor: rule, domainColor: rule, tickColor: rule },
      header: labels,
      legend: { ...labels, orient: "bottom", columns: 3, labelLimit: 240 },
      view: { stroke: rule },
    };
  };

  const draw = async ({ place, spec }) => {
    try {
      await vegaEmbed(place, fitted(spec, place.clientWidth), {
        mode: "vega-lite",
        renderer: "svg",
        actions: { export: true, source: false, compiled: false, editor: false },
        config: config(),
      });
      place.dataset.drawn = "yes";
    } catch (error) {
      place.innerHTML = "";
      const said = document.createElement("p");
      said.className = "error";
      said.textContent = `This chart could not be drawn: ${error.message}`;
      place.append(said);
    }
  };

  const drawAll = () => Promise.all(charts.map(draw));
  let width = innerWidth;
  let waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 150);
  });
  dark.addEventListener("change", drawAll);
  drawAll().then(() => (document.documentElement.dataset.drawn = "yes"));
})();
