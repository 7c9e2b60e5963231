// Follows a submission: polls its state, slower when nothing changes or nobody looks, and stops
// when it is over.
const panel = document.querySelector("#submission");
const FAST = 1500;
const SLOW = 15000;
let last = "";
let wait = FAST;
let timer = 0;

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
  if (panel.dataset.current !== state.stage) {
    location.reload(); // other things can be done now
    return;
  }
  const words = { "#state-label": state.label, "#state-next": state.next, "#state-queue": state.queue };
  for (const [place, text] of Object.entries(words)) document.querySelector(place).textContent = text;
  if (state.probe.length) document.querySelector("#probe").replaceChildren(...state.probe.map(line));
  if (state.run) {
    document.querySelector("#evaluation").hidden = false;
    document.querySelector("#run-bar").max = state.run.total;
    document.querySelector("#run-bar").value = state.run.done;
    document.querySelector("#run-words").textContent = state.run.words;
  }
}

async function poll() {
  timer = 0;
  try {
    const answer = await fetch(panel.dataset.state, { headers: { Accept: "application/json" } });
    const text = answer.ok ? await answer.text() : last;
    wait = text === last ? Math.min(1.5 * wait, SLOW) : FAST;
    if (text !== last) {
      last = text;
      const state = JSON.parse(text);
      show(state);
      if (state.ended) return;
    }
  } catch {
    wait = SLOW;
  }
  timer = setTimeout(poll, document.hidden ? 4 * SLOW : wait);
}

if (!panel.dataset.ended) {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !timer) return;
    clearTimeout(timer);
    poll();
  });
  poll();
}
