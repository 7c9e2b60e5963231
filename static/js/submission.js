// Follows a submission: polls its state, slower when nobody looks, and stops when it is over.
const panel = document.querySelector("#submission");
const FAST = 1500;
const SLOW = 15000;
let last = "";

function line(step) {
  const item = document.createElement("li");
  item.dataset.result = step.state;
  const label = document.createElement("strong");
  label.textContent = step.label;
  const result = document.createElement("span");
  result.className = "result";
  result.textContent = step.state === "running" ? "running …" : step.state;
  item.append(label, " ", result);
  for (const [text, name] of [[step.detail, ""], [step.advice, "advice"]]) {
    if (!text) continue;
    const paragraph = document.createElement("p");
    paragraph.className = name;
    paragraph.textContent = text;
    item.append(paragraph);
  }
  return item;
}

function show(state) {
  if (panel.dataset.current && panel.dataset.current !== state.state) {
    location.reload(); // other things can be done now
    return;
  }
  panel.dataset.current = state.state;
  document.querySelector("#state-label").textContent = state.label;
  document.querySelector("#state-next").textContent = state.next;
  if (state.probe.length) document.querySelector("#probe").replaceChildren(...state.probe.map(line));
  if (state.run) {
    document.querySelector("#evaluation").hidden = false;
    const bar = document.querySelector("#run-bar");
    bar.max = state.run.edits.total || 1;
    bar.value = state.run.edits.done;
    const left = state.run.seconds_left ? `, about ${Math.ceil(state.run.seconds_left / 60)} min left` : "";
    document.querySelector("#run-words").textContent =
      `${state.run.label}: ${state.run.edits.done} of ${state.run.edits.total} edits, ` +
      `${state.run.trips.scored} trips scored${left}.`;
  }
}

async function poll() {
  let next = document.hidden ? SLOW : FAST;
  try {
    const answer = await fetch(panel.dataset.state, { headers: { Accept: "application/json" } });
    if (answer.ok) {
      const text = await answer.text();
      const state = JSON.parse(text);
      if (text !== last) show(state);
      else next = Math.max(next, 2 * FAST);
      last = text;
      if (state.ended) return;
    }
  } catch {
    next = SLOW;
  }
  setTimeout(poll, next);
}

if (!panel.dataset.ended) poll();
