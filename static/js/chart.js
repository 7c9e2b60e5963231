// Draws the figures that the server wrote into the page. Plotly is large, so it is
// fetched once, when the first chart comes near the window.

const bundle = document.querySelector("script[data-plotly]").dataset.plotly;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const NARROW = 640;
let loading;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = bundle;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("the chart library did not load"));
    document.head.append(script);
  });
  return loading;
}

// Replaces "var(--name)" and "var(--name / 0.2)" by the colours of the current theme.
function coloured(value, style) {
  if (Array.isArray(value)) return value.map((item) => coloured(item, style));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [
      key,
      typeof item === "string" && key.endsWith("color") ? colour(item, style) : coloured(item, style),
    ]));
  }
  return value;
}

function colour(text, style) {
  const match = /^var\((--[\w-]+)(?: \/ ([\d.]+))?\)$/.exec(text);
  if (!match) return text;
  const value = style.getPropertyValue(match[1]).trim();
  if (!match[2]) return value;
  const [, r, g, b] = /^#(..)(..)(..)$/.exec(value).map((hex) => parseInt(hex, 16));
  return `rgba(${r},${g},${b},${match[2]})`;
}

function themed(figure, width, light = false) {
  const root = document.documentElement;
  const style = getComputedStyle(root);
  // The class is removed again before anything is drawn.
  root.classList.toggle("light", light);
  const { data, layout } = coloured(figure, style);
  layout.font.family = style.getPropertyValue("--sans");
  root.classList.remove("light");
  if (width < NARROW) {
    layout.margin = { ...layout.margin, l: 60, r: 6 };
    layout.font.size = 12;
    for (const note of layout.annotations ?? []) {
      if (note.name === "end name") Object.assign(note, { xanchor: "right", xshift: -2, yanchor: "bottom" });
    }
    const end = layout.meta?.narrowEnd;
    if (end) layout.xaxis.range = [layout.xaxis.range[0], end];
  }
  return { data, layout };
}

// A figure is in the page, or at an address that is fetched when the chart comes near the window.
async function figureOf(plot, chart) {
  if (plot.dataset.figure) return JSON.parse(document.getElementById(plot.dataset.figure).textContent);
  const answer = await fetch(plot.dataset.src);
  const { title, figure } = await answer.json();
  if (!figure) throw new Error("there is no such chart");
  chart.querySelector("h2, h3").textContent = title;
  return figure;
}

async function draw(plot) {
  const config = { displayModeBar: false, responsive: true };
  const chart = plot.closest(".chart");
  let library, figure;
  try {
    [library, figure] = await Promise.all([plotly(), figureOf(plot, chart)]);
  } catch (error) {
    // Show the table of numbers instead.
    plot.remove();
    const numbers = chart.querySelector("details");
    if (numbers) numbers.open = true;
    return;
  }
  const redraw = async (paper = false) => {
    const { data, layout } = themed(figure, plot.clientWidth, paper === true);
    await library.react(plot, data, layout, config);
    hideOverlappingNames(plot, layout);
  };
  await redraw();
  plot.dataset.drawn = "";
  dark.addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => redraw(true));
  window.addEventListener("afterprint", redraw);
  let wide = plot.clientWidth >= NARROW;
  new ResizeObserver(() => {
    if (wide !== (wide = plot.clientWidth >= NARROW)) redraw();
  }).observe(plot);
  offerChoice(chart, figure, redraw);
  offerDownloads(chart, library, figure);
}

// Names beside close points would cover each other: the later one is hidden. The point's own text
// and the table still name it.
function hideOverlappingNames(plot, layout) {
  const shown = [];
  for (const label of plot.querySelectorAll(".annotation")) {
    if (layout.annotations[label.dataset.index]?.name !== "point name") continue;
    const box = label.getBoundingClientRect();
    const covers = shown.some((other) => box.left < other.right && other.left < box.right
      && box.top < other.bottom && other.top < box.bottom);
    if (covers) label.style.visibility = "hidden";
    else shown.push(box);
  }
}

// The legend's buttons show and hide curves. The choice is stored in the figure, so a redraw keeps it.
function offerChoice(chart, figure, redraw) {
  for (const button of chart.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", shown);
      for (const trace of figure.data) {
        if (trace.legendgroup === button.dataset.group) trace.visible = shown || "legendonly";
      }
      redraw();
    });
  }
}

function offerDownloads(chart, library, figure) {
  const downloads = chart.querySelector(".downloads");
  if (!downloads) return;
  downloads.hidden = false;
  downloads.addEventListener("click", ({ target }) => {
    const format = target.dataset.download;
    if (!format) return;
    const { data, layout } = themed(figure, 1200, true);
    // A downloaded image needs its own title and source, and light colours for printing.
    const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    const source = [chart.dataset.about, location.href].filter(Boolean).join(" · ");
    layout.title = { text: plain(chart.querySelector("h2, h3").textContent), font: { size: 18 }, x: 0.02 };
    layout.margin = { ...layout.margin, t: 56, b: 104 };
    layout.showlegend = true;
    layout.annotations = [...(layout.annotations ?? []), {
      text: plain(`ConvergeBench · ${source}`), xref: "paper", yref: "paper", x: 0, xanchor: "left",
      y: 0, yanchor: "top", yshift: -72, showarrow: false, font: { size: 12 },
    }];
    const filename = `convergebench-${chart.dataset.file || chart.id}`;
    library.downloadImage({ data, layout }, { format, width: 1200, height: 640, scale: 2, filename });
  });
}

// A chart that is not drawn yet is printed as its table of numbers.
window.addEventListener("beforeprint", () => {
  for (const plot of document.querySelectorAll(".plot:not([data-drawn])")) {
    const numbers = plot.closest(".chart").querySelector("details");
    if (numbers) numbers.open = true;
  }
});

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    draw(target);
  }
}, { rootMargin: "300px" });
for (const plot of document.querySelectorAll(".plot[data-figure], .plot[data-src]")) near.observe(plot);
