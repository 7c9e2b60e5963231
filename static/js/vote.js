// Blind votes, ten questions a session. The images of the next questions are fetched and decoded
// in advance, so that they appear at once.

const FLICKER_MS = 400; // as in the viewer: too slow to cause seizures
const ZOOM = 3;
const AHEAD = 2; // questions whose images are fetched in advance
const TRIES = 4; // attempts to send an answer; each pause is twice as long as the one before

const ballot = document.getElementById("ballot");
const intro = document.getElementById("intro");
const trouble = document.getElementById("trouble");
const button = document.getElementById("start");

const frames = Object.fromEntries(
  [...ballot.querySelectorAll(".frame")].map((frame) => [frame.dataset.side, frame]),
);
const say = (name, text) => { ballot.querySelector(`[data-say="${name}"]`).textContent = text; };
const token = ballot.querySelector("[name=csrfmiddlewaretoken]").value;
const shown = { flicker: false, zoom: false };
const used = { flicker: false, zoom: false };

let session;
let now = -1;
let since = 0;
let busy = false;
let timer;
let sending = Promise.resolve();

async function post(address, body) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRFToken": token },
    body: JSON.stringify(body),
  });
  const content = await answer.json().catch(() => ({}));
  return { status: answer.status, content };
}

function fail(text) {
  trouble.textContent = text;
  trouble.hidden = false;
}

async function begin() {
  button.disabled = true;
  trouble.hidden = true;
  try {
    const { status, content } = await post(ballot.dataset.begin, { kind: ballot.dataset.kind });
    if (status !== 200) throw new Error(content.detail || "The site sent no questions. Please try again in a minute.");
    session = content;
    say("total", session.total);
    now = -1;
    fetchAhead(0);
    await next();
  } catch (error) {
    fail(error.message);
    button.disabled = false;
  }
}

// Returns a decoded image element. Each address works only once.
async function load(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (!answer.ok) throw new Error("An image could not be loaded. Please start again.");
  const image = new Image();
  image.src = URL.createObjectURL(await answer.blob());
  await image.decode();
  return image;
}

function fetchAhead(place) {
  for (const question of session.questions.slice(place, place + AHEAD + 1)) {
    question.ready ??= Promise.all(
      Object.entries(question.images).map(async ([side, address]) => [side, await load(address)]),
    ).then(Object.fromEntries);
    question.ready.catch(() => {}); // reported when the question is shown
  }
}

async function next() {
  const answered = performance.now();
  const before = session.questions[now];
  now += 1;
  const question = session.questions[now];
  if (!question) return finish();
  const images = await question.ready;
  for (const [side, frame] of Object.entries(frames)) {
    const image = images[side];
    if (!image) continue;
    image.alt = { source: "The original", left: "Left image", right: "Right image" }[side];
    image.draggable = false;
    const over = new Image();
    over.src = images.source.src;
    over.alt = "";
    over.hidden = true;
    over.className = "over";
    frame.style.aspectRatio = `${question.width} / ${question.height}`;
    frame.replaceChildren(image, ...(side === "source" ? [] : [over]));
  }
  if (before?.ready) before.ready.then((old) => {
    for (const image of Object.values(old)) URL.revokeObjectURL(image.src);
  });
  zoomTo({ x: 0.5, y: 0.5 });
  if (shown.zoom) toggle("zoom");
  used.flicker = shown.flicker;
  used.zoom = false;
  intro.hidden = true;
  ballot.hidden = false;
  const place = session.before + now + 1;
  say("place", place);
  say("live", `Question ${place} of ${session.total}`);
  if (now === 0) ballot.querySelector("#asked").focus();
  since = performance.now();
  ballot.dataset.place = place;
  // The longest wait for a question, which tests read.
  if (now > 0) ballot.dataset.waited = Math.max(Number(ballot.dataset.waited || 0), since - answered).toFixed(1);
  busy = false;
  fetchAhead(now + 1);
}

async function send(body, tries = TRIES) {
  for (let wait = 300; tries > 0; tries -= 1, wait *= 2) {
    const answer = await post(session.answer, body).catch(() => null);
    // 409: the vote arrived in an earlier attempt, but the server's answer was lost.
    if (answer && (answer.status === 200 || answer.status === 409)) return;
    if (answer && answer.status < 500) throw new Error(answer.content.detail);
    await new Promise((resolve) => { setTimeout(resolve, wait); });
  }
  throw new Error("Your answer could not be sent. Please check your connection and reload the page.");
}

async function choose(answer) {
  if (busy || now < 0 || !session.questions[now]) return;
  busy = true;
  const body = {
    ticket: session.questions[now].ticket,
    answer,
    seconds: (performance.now() - since) / 1000,
    looked: { ...used, width: innerWidth },
  };
  // Answers are sent one after the other, while the next question is shown.
  sending = sending.then(() => send(body));
  sending.catch((error) => { fail(error.message); busy = true; });
  try {
    await next();
  } catch (error) {
    fail(error.message);
  }
}

async function finish() {
  ballot.setAttribute("aria-busy", "true");
  await sending;
  location.assign(session.done);
}

function toggle(mode) {
  shown[mode] = !shown[mode];
  used[mode] ||= shown[mode];
  ballot.querySelector(`[data-mode="${mode}"]`).setAttribute("aria-pressed", shown[mode]);
  if (mode === "zoom") {
    ballot.classList.toggle("zoomed", shown.zoom);
    zoomTo(place);
    return;
  }
  clearInterval(timer);
  let source = false;
  const draw = () => {
    for (const over of ballot.querySelectorAll(".over")) over.hidden = !(shown.flicker && source);
  };
  draw();
  if (shown.flicker) timer = setInterval(() => { source = !source; draw(); }, FLICKER_MS);
}

// Zooms all images to the same place.
let place = { x: 0.5, y: 0.5 };
function zoomTo(at) {
  place = { x: Math.min(1, Math.max(0, at.x)), y: Math.min(1, Math.max(0, at.y)) };
  for (const image of ballot.querySelectorAll(".frame img")) {
    image.style.transformOrigin = `${100 * place.x}% ${100 * place.y}%`;
    image.style.transform = shown.zoom ? `scale(${ZOOM})` : "";
  }
}

function within(frame, event) {
  const box = frame.getBoundingClientRect();
  return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
}

for (const frame of Object.values(frames)) {
  let moved = false;
  frame.addEventListener("pointerdown", () => { moved = false; });
  frame.addEventListener("pointermove", (event) => {
    if (!shown.zoom || (event.pointerType !== "mouse" && !event.buttons)) return;
    moved = event.pointerType !== "mouse";
    zoomTo(within(frame, event));
  });
  frame.addEventListener("click", (event) => {
    if (moved) return; // the finger moved the image: no tap
    if (!shown.zoom) place = within(frame, event);
    toggle("zoom");
  });
}

for (const choice of ballot.querySelectorAll("[data-answer]")) {
  choice.addEventListener("click", () => choose(choice.dataset.answer));
}
for (const mode of ballot.querySelectorAll("[data-mode]")) {
  mode.addEventListener("click", () => toggle(mode.dataset.mode));
}

// Keys work on the whole page except in fields. A checkbox turns them off.
const ARROWS = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
document.addEventListener("keydown", (event) => {
  if (ballot.hidden || event.ctrlKey || event.metaKey || event.altKey || event.repeat && !ARROWS[event.key]) return;
  if (!ballot.querySelector("#keys").checked || event.target.closest("select, textarea, [contenteditable]")) return;
  const button = ballot.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (button) {
    event.preventDefault();
    choose(button.dataset.answer);
  } else if (event.key === "f" || event.key === "z") {
    toggle(event.key === "f" ? "flicker" : "zoom");
  } else if (ARROWS[event.key] && shown.zoom) {
    event.preventDefault();
    const [x, y] = ARROWS[event.key];
    zoomTo({ x: place.x + x, y: place.y + y });
  }
});

button?.addEventListener("click", begin);
