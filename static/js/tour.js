// Plays the tour. It starts by itself, unless the visitor prefers reduced motion.

const tour = document.getElementById("tour");
const STOP_SECONDS = 7;

if (tour) {
  const stops = [...tour.querySelectorAll("li")];
  const controls = tour.querySelector(".play");
  const button = controls.querySelector("[data-do=play]");
  const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  let now = 0;
  let timer = null;

  function show(place) {
    now = Math.max(0, Math.min(stops.length - 1, place));
    for (const [number, stop] of stops.entries()) stop.toggleAttribute("data-now", number === now);
    for (const image of stops[Math.min(now + 1, stops.length - 1)].querySelectorAll("img")) image.loading = "eager";
    controls.querySelector("[data-say]").textContent = `${now + 1} of ${stops.length}`;
    controls.querySelector("[data-do=back]").disabled = now === 0;
    controls.querySelector("[data-do=on]").disabled = now === stops.length - 1;
    // Screen readers read a stop only if it was chosen by hand: a playing tour would interrupt them.
    if (timer === null) tour.querySelector("[data-live]").textContent = stops[now].querySelector(".said").innerText;
  }

  function halt() {
    clearInterval(timer);
    timer = null;
    button.textContent = now === stops.length - 1 ? "Play again" : "Play";
  }

  function play() {
    if (now === stops.length - 1) show(0);
    button.textContent = "Stop";
    timer = setInterval(() => {
      show(now + 1);
      if (now === stops.length - 1) halt();
    }, STOP_SECONDS * 1000);
  }

  controls.addEventListener("click", ({ target }) => {
    const action = target.dataset.do;
    if (!action) return;
    if (action === "play" && timer === null) play();
    else {
      halt();
      if (action === "back") show(now - 1);
      if (action === "on") show(now + 1);
      if (action !== "play") halt();
    }
  });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") halt(); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) halt(); });

  tour.classList.add("playing");
  controls.hidden = false;
  if (reducedMotion) {
    show(0);
    halt();
  } else {
    play();
    show(0);
  }
}
