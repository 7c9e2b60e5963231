// Keeps the page of a run up to date while it plays. Asks often while things change,
// seldom while nothing does, never while nobody looks, and stops when the run has ended.

const OFTEN_MS = 3000;
const SELDOM_MS = 30000;
const panel = document.getElementById("live");
let pause = OFTEN_MS;
let before = "";
let timer;

function show({ done, lines, metric, path, curve }) {
  panel.querySelector("progress").value = done;
  for (const [name, text] of Object.entries({ ...lines, metric })) {
    const place = panel.querySelector(`[data-live="${name}"]`);
    if (place && place.textContent !== text) place.textContent = text;
  }
  panel.querySelector('[data-live="why"]').hidden = !lines.why;
  panel.querySelector('[data-row="error"]').hidden = !lines.error;
  panel.querySelector(".growing").hidden = !path;
  document.getElementById("growing").setAttribute("d", path);
  fill(curve);
}

// The curve's numbers, rebuilt when there are more of them.
function fill(curve) {
  const [head, kept, chains] = panel.querySelectorAll(".growing tr");
  const texts = [
    [head, "th", curve.map((_, place) => String(place + 1))],
    [kept, "td", curve.map(([share]) => `${Math.round(100 * share)}\u00a0%`)],
    [chains, "td", curve.map(([, count]) => String(count))],
  ];
  for (const [row, kind, values] of texts) {
    while (row.children.length > 1) row.lastElementChild.remove();
    for (const value of values) {
      const cell = document.createElement(kind);
      if (kind === "th") cell.scope = "col";
      cell.className = "num";
      cell.textContent = value;
      row.append(cell);
    }
  }
}

async function poll() {
  const status = panel.querySelector('[data-live="polled"]');
  try {
    // The browser sends the last ETag along; an unchanged answer costs a 304.
    const response = await fetch(panel.dataset.poll, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error(String(response.status));
    const text = await response.text();
    const live = JSON.parse(text);
    if (live.ended) {
      location.reload(); // the results are another page
      return;
    }
    pause = text === before ? Math.min(SELDOM_MS, pause * 1.5) : OFTEN_MS;
    if (text !== before) show(live);
    before = text;
    status.textContent = "This page follows the run.";
  } catch {
    pause = Math.min(SELDOM_MS, pause * 2);
    status.textContent = "The site does not answer just now; trying again.";
  }
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (document.visibilityState === "visible") timer = setTimeout(poll, pause);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.visibilityState === "visible") poll();
});
if (panel && !("ended" in panel.dataset)) schedule();
