// Updates a run's page while the run is under way, and loads the results when it has ended.
import { poll } from "./poll.js";

const panel = document.getElementById("live");

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

// Rebuilds the table of the curve's numbers.
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

const status = (text) => {
  panel.querySelector('[data-live="polled"]').textContent = text;
};

function follow(live, changed) {
  if (live.ended) {
    location.reload(); // the results are another page
    return false;
  }
  if (changed) show(live);
  status("This page updates itself.");
  return true;
}

if (panel && !("ended" in panel.dataset)) {
  poll(panel.dataset.poll, follow, {
    often: 3000,
    seldom: 30000,
    failed: () => status("The site does not answer. Trying again."),
  });
}
