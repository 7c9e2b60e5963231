// Shows one chain (all round trips of a case): a slider through the trips, wipe, flicker, difference,
// and zoom to the place that lost most. The images, links and numbers are read from the strip below. Thumbnails are shown until
// somebody uses the viewer; then the full-size copies are fetched.

const FLICKER_MS = 400; // two changes in 0.8 s: too slow to cause seizures
const SMALL_CHANGE = 8; // of 255; smaller differences are drawn black

const viewer = document.getElementById("viewer");

function start() {
  const find = (selector) => viewer.querySelector(selector);
  const say = (name, text) => { find(`[data-say="${name}"]`).textContent = text; };
  const trip = find("#trip");
  const wipe = find("#wipe");
  const gain = find("#gain");
  const main = find('[data-view="main"]');
  const beside = find('[data-view="beside"]');
  // Drawing differences reads the pixels back, so keep them in memory.
  main.getContext("2d", { willReadFrequently: true });
  const size = { width: main.width, height: main.height };
  const shown = { edited: false, wipe: false, flicker: false, difference: false, zoom: false };
  const trips = [...document.querySelectorAll(".strip figure.restored")].map(readTrip);
  const source = { full: viewer.dataset.source, small: viewer.dataset.sourceThumb };
  let awake = false;
  let flickered = false;
  let timer;

  // Images are fetched once: at full size if the viewer is in use.
  const loaded = new Map();
  function fetched(address) {
    if (!loaded.has(address)) {
      const image = new Image();
      image.src = address;
      image.addEventListener("load", draw);
      loaded.set(address, image);
    }
    const image = loaded.get(address);
    return image.complete && image.naturalWidth ? image : null;
  }
  function best({ full, small }) {
    return (awake && fetched(full)) || fetched(small);
  }

  const current = () => trips[trip.value - 1]; // undefined at 0: the source itself
  const restoredOrEdited = () => {
    const now = current();
    if (!now) return source;
    return shown.edited && now.edited ? now.edited : now.restored;
  };

  // Returns the visible part: the whole image, or the place that lost most with some margin.
  function region() {
    const place = current()?.window ?? lastWindow();
    const whole = { x: 0, y: 0, width: size.width, height: size.height };
    if (!place) return whole;
    const [left, top, right, bottom] = place;
    const spot = [left * size.width, top * size.height, (right - left) * size.width, (bottom - top) * size.height];
    if (!shown.zoom) return { ...whole, spot: current() && !shown.edited ? spot : null };
    const [width, height] = [2 * spot[2], 2 * spot[3]];
    const x = Math.min(Math.max(0, spot[0] - spot[2] / 2), size.width - width);
    const y = Math.min(Math.max(0, spot[1] - spot[3] / 2), size.height - height);
    return { x, y, width, height, spot, zoomed: true };
  }
  const lastWindow = () => trips.at(-1)?.window;

  // Images of any size are drawn at the size of the source: they are scored at that size.
  function paint(canvas, image, part) {
    const pen = canvas.getContext("2d");
    const across = image.naturalWidth / size.width;
    const down = image.naturalHeight / size.height;
    pen.imageSmoothingEnabled = !part.zoomed;
    pen.drawImage(
      image, part.x * across, part.y * down, part.width * across, part.height * down,
      0, 0, canvas.width, canvas.height,
    );
  }

  function frame(canvas, part) {
    if (!part.spot) return;
    const [left, top, width, height] = part.spot;
    const scale = canvas.width / part.width;
    const pen = canvas.getContext("2d");
    pen.lineWidth = 1;
    for (const [colour, off] of [["#000", 0.5], ["#fff", -0.5]]) {
      pen.strokeStyle = colour;
      pen.strokeRect((left - part.x) * scale - off, (top - part.y) * scale - off, width * scale + 2 * off, height * scale + 2 * off);
    }
  }

  function draw() {
    const part = region();
    const before = best(source);
    const shownNow = restoredOrEdited();
    const after = best(shownNow);
    // `data-full` marks that the full-size images are shown instead of thumbnails.
    viewer.toggleAttribute("data-full", Boolean(awake && fetched(source.full) && fetched(shownNow.full)));
    main.classList.toggle("pixels", Boolean(part.zoomed));
    if (before && after) {
      if (shown.difference) {
        drawDifference(before, after, part);
      } else {
        paint(main, shown.flicker && flickered ? before : after, part);
        if (shown.wipe) drawWipe(before, part);
      }
      frame(main, part);
    }
    drawBeside(part, before);
  }

  function drawWipe(before, part) {
    const pen = main.getContext("2d");
    const edge = Math.round((main.width * wipe.value) / 100);
    pen.save();
    pen.beginPath();
    pen.rect(0, 0, edge, main.height);
    pen.clip();
    paint(main, before, part);
    pen.restore();
    pen.fillStyle = "#fff";
    pen.fillRect(edge - 1, 0, 2, main.height);
    pen.fillStyle = "#000";
    pen.fillRect(edge + 1, 0, 1, main.height);
  }

  function drawDifference(before, after, part) {
    const pen = main.getContext("2d");
    const pixels = (image) => {
      paint(main, image, part);
      return pen.getImageData(0, 0, main.width, main.height);
    };
    const a = pixels(before).data;
    const out = pixels(after);
    const b = out.data;
    const times = Number(gain.value) / 3;
    for (let i = 0; i < b.length; i += 4) {
      const off = Math.abs(a[i] - b[i]) + Math.abs(a[i + 1] - b[i + 1]) + Math.abs(a[i + 2] - b[i + 2]);
      const heat = HEAT[Math.min(255, Math.round(off * times))];
      b[i] = heat[0];
      b[i + 1] = heat[1];
      b[i + 2] = heat[2];
    }
    pen.putImageData(out, 0, 0);
  }

  // Draws the source saved as the JPEG that loses as much; at trip 0 the source itself.
  function drawBeside(part, before) {
    const now = current();
    beside.classList.toggle("pixels", Boolean(part.zoomed));
    const image = now?.jpeg ? fetched(viewer.dataset.jpeg.replace(/1$/, now.jpeg)) : before;
    if (image) paint(beside, image, part);
    frame(beside, part);
  }

  function describe() {
    const now = current();
    const number = Number(trip.value);
    const after = number === 1 ? "After 1 round trip" : `After ${number} round trips`;
    const restored = now ? `${after}: ${now.words}` : "The source itself.";
    const image = now && shown.edited ? `Y${number}, the edited image of trip ${number}` : restored;
    const view = [
      shown.difference && `difference from the source, amplified ${gain.value} times: black is none, yellow is large`,
      !shown.difference && shown.wipe && "the source is left of the line",
      !shown.difference && shown.flicker && "alternating with the source",
      now && !shown.edited && region().spot && now.because,
    ].filter(Boolean).join("; ");
    const text = view ? `${image} (${view})` : image;
    const like = now?.jpeg ? `${now.like}, by ${viewer.dataset.metric}` : "The source";
    say("trip", trip.value);
    say("gain", gain.value);
    say("main", text);
    say("beside", like);
    main.setAttribute("aria-label", text);
    beside.setAttribute("aria-label", like);
    trip.setAttribute("aria-valuetext", restored);
    for (const [name, on] of Object.entries(shown)) {
      find(`[data-mode="${name}"]`).setAttribute("aria-pressed", on);
      const slider = find(`[data-for="${name}"]`);
      if (slider) slider.hidden = !on;
    }
    find(".views").classList.toggle("wiping", shown.wipe);
    for (const { figure } of trips) figure.toggleAttribute("aria-current", figure === now?.figure);
    return text;
  }

  function show(speak = false) {
    const text = describe();
    if (speak) say("live", text);
    draw();
  }

  function wake() {
    if (awake) return;
    awake = true;
    draw();
  }

  function toggle(mode) {
    wake();
    shown[mode] = !shown[mode];
    // Only one way to compare at a time; zoom and the edited image work with each.
    if (shown[mode] && ["wipe", "flicker", "difference"].includes(mode)) {
      for (const other of ["wipe", "flicker", "difference"]) if (other !== mode) shown[other] = false;
    }
    clearInterval(timer);
    flickered = false;
    if (shown.flicker) timer = setInterval(() => { flickered = !flickered; draw(); }, FLICKER_MS);
    show(true);
  }

  function go(number) {
    wake();
    trip.value = number;
    show(true);
  }

  trip.addEventListener("input", () => { wake(); show(); });
  wipe.addEventListener("input", draw);
  gain.addEventListener("input", () => show());
  for (const button of viewer.querySelectorAll("[data-mode]")) {
    button.addEventListener("click", () => toggle(button.dataset.mode));
  }
  viewer.addEventListener("pointerenter", wake);
  viewer.addEventListener("focusin", wake);

  main.addEventListener("pointerdown", (event) => {
    if (!shown.wipe) return;
    main.setPointerCapture(event.pointerId);
    moveWipe(event);
  });
  main.addEventListener("pointermove", (event) => { if (event.buttons && shown.wipe) moveWipe(event); });
  function moveWipe(event) {
    const box = main.getBoundingClientRect();
    wipe.value = (100 * (event.clientX - box.left)) / box.width;
    draw();
  }

  // Keys work on the whole page except in fields. A checkbox turns them off.
  const keys = { w: "wipe", f: "flicker", d: "difference", z: "zoom", e: "edited" };
  document.addEventListener("keydown", (event) => {
    if (!find("#keys").checked || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest("input, select, textarea, [contenteditable]");
    if (keys[event.key] && (!field || field.type === "range")) {
      toggle(keys[event.key]);
    } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !field && !event.target.closest(".strip, .table")) {
      event.preventDefault();
      go(Number(trip.value) + (event.key === "ArrowRight" ? 1 : -1));
    }
  });

  // The hash #trip-5 opens trip 5.
  const openTripInHash = () => {
    const number = /^#trip-(\d+)$/.exec(location.hash)?.[1];
    if (number) { trip.value = number; show(); }
  };
  window.addEventListener("hashchange", openTripInHash);
  show();
  openTripInHash();
}

function readTrip(figure) {
  const link = figure.querySelector("a");
  const edited = figure.parentElement.querySelector("figure.edited a");
  const images = (anchor) => anchor && { full: anchor.href, small: anchor.querySelector("img").src };
  const { window, because, words, jpeg, like } = figure.dataset;
  return {
    figure, because, words, jpeg, like,
    restored: images(link) ?? images(edited),
    edited: images(edited),
    window: window ? window.split(" ").map(Number) : null,
  };
}

// From black through red to yellow. Each colour is lighter than the one before, so the scale also works
// in grey.
const HEAT = heat([[0, 0, 4], [66, 10, 104], [147, 38, 103], [221, 81, 58], [252, 165, 10], [252, 255, 164]]);
function heat(stops) {
  return Array.from({ length: 256 }, (_, level) => {
    if (level < SMALL_CHANGE / 3) return stops[0];
    const place = (level / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    return stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (place - low)));
  });
}

if (viewer) start();
