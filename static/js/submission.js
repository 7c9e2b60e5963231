// Updates a submission's page until the submission has ended.
import { poll } from "./poll.js";

const panel = document.querySelector("#submission");

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

function figure(shown) {
  const item = document.createElement("li");
  const frame = document.createElement("figure");
  const image = document.createElement("img");
  image.src = shown.src;
  image.alt = shown.label;
  const caption = document.createElement("figcaption");
  caption.textContent = shown.label;
  frame.append(image, caption);
  item.append(frame);
  return item;
}

// Replaces the images only if they changed, because replaced images flicker.
function images(place, shown) {
  const list = document.querySelector(place);
  const before = [...list.querySelectorAll("img")].map((image) => image.getAttribute("src")).join();
  if (before !== shown.map((image) => image.src).join()) list.replaceChildren(...shown.map(figure));
}

function show(state) {
  if (panel.dataset.current !== state.stage) {
    location.reload(); // the new stage has other forms
    return false;
  }
  const words = { "#state-label": state.label, "#state-next": state.next, "#state-queue": state.queue };
  for (const [place, text] of Object.entries(words)) document.querySelector(place).textContent = text;
  if (state.probe.length) document.querySelector("#probe").replaceChildren(...state.probe.map(line));
  images("#probe-images", state.images);
  images("#restored", state.restored);
  if (state.run) {
    document.querySelector("#evaluation").hidden = false;
    document.querySelector("#run-bar").max = state.run.total;
    document.querySelector("#run-bar").value = state.run.done;
    document.querySelector("#run-words").textContent = state.run.words;
  }
  return !state.ended;
}

if (!panel.dataset.ended) poll(panel.dataset.state, show, { often: 1500, seldom: 15000 });
