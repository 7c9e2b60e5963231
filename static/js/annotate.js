/* Draws an image's annotations, and lets a curator draw them: boxes by dragging, points by clicking. */
"use strict";

const BOXES = { floor: "#ff9900", wall: "#ff00ff", sky: "#00bfff", surface: "#b5651d", water: "#0000ff" };
const POINTS = { mouth: "#ff0000", head_top: "#ffff00", neck: "#00ffff" };
const FACE = "#00ff00";
const TEXT = "#ff0000";
const TOOLS = ["eyes", ...Object.keys(POINTS), ...Object.keys(BOXES), "text"];

function rounded(values) {
  return values.map((value) => Math.round(Math.min(1, Math.max(0, value)) * 1000) / 1000);
}

class Annotator {
  constructor(root) {
    this.field = root.querySelector("textarea");
    this.canvas = root.querySelector("canvas");
    this.tool = root.querySelector("select");
    this.words = root.querySelector("input");
    this.status = root.querySelector("[role=status]");
    this.image = new Image();
    this.image.addEventListener("load", () => this.fit());
    // Of a very large image there may be no full copy yet; its small one is enough to draw on.
    this.image.addEventListener("error", () => { this.image.src = root.dataset.small; }, { once: true });
    this.image.src = root.dataset.image;
    this.start = null;
    for (const name of TOOLS) this.tool.add(new Option(name.replace("_", " "), name));
    this.tool.addEventListener("change", () => {
      this.words.hidden = this.tool.value !== "text";
      this.say("");
    });
    this.field.addEventListener("input", () => this.draw());
    this.canvas.addEventListener("pointerdown", (event) => {
      this.start = this.at(event);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => this.start && this.draw(this.at(event)));
    this.canvas.addEventListener("pointerup", (event) => this.finish(this.at(event)));
    this.canvas.addEventListener("pointercancel", () => {
      this.start = null;
      this.draw();
    });
    root.querySelector("button").addEventListener("click", () => this.remove());
  }

  get places() {
    try { return JSON.parse(this.field.value || "{}"); } catch { return {}; }
  }

  set places(found) {
    this.field.value = JSON.stringify(found);
    this.draw();
  }

  say(text) {
    this.status.textContent = text;
  }

  fit() {
    const scale = 640 / Math.max(this.image.width, this.image.height);
    this.canvas.width = Math.round(this.image.width * scale);
    this.canvas.height = Math.round(this.image.height * scale);
    this.draw();
  }

  at(event) {
    const edge = this.canvas.getBoundingClientRect();
    return [(event.clientX - edge.left) / edge.width, (event.clientY - edge.top) / edge.height];
  }

  finish(end) {
    if (!this.start) return;
    const [x, y] = this.start;
    this.start = null;
    const box = rounded([Math.min(x, end[0]), Math.min(y, end[1]), Math.max(x, end[0]), Math.max(y, end[1])]);
    const point = rounded(end);
    const found = this.places;
    const name = this.tool.value;
    const label = name.replace("_", " ");
    const small = box[2] - box[0] < 0.01 || box[3] - box[1] < 0.01;
    let said = `Drawn: ${label}. Save to keep it.`;
    if (name in POINTS) found[name] = point;
    else if (name === "eyes") {
      const eyes = (found.eyes || []).length === 1 ? [...found.eyes, point] : [point];
      found.eyes = eyes.sort((one, two) => one[0] - two[0]);
      if (eyes.length === 1) said = "Now click the other eye.";
    } else if (small || (name === "text" && !this.words.value.trim())) {
      this.say(small ? `Drag a box for the ${label}.` : "Write the words of the box first.");
      this.draw();
      return;
    } else if (name === "face") found.face = box;
    else if (name === "text") {
      found.text = [...(found.text || []), { text: this.words.value.trim(), box }];
    } else found[name] = [...(found[name] || []), box];
    this.places = found;
    this.say(said);
  }

  remove() {
    const found = this.places;
    const name = this.tool.value;
    const label = name.replace("_", " ");
    if (!found[name]) return this.say(`There is no ${label} to remove.`);
    if (name in BOXES || name === "text") {
      found[name] = found[name].slice(0, -1);
      if (!found[name].length) delete found[name];
    } else delete found[name];
    this.places = found;
    return this.say(`Removed: ${label}.`);
  }

  draw(end) {
    const pen = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    if (!this.image.naturalWidth) return; // it is still on its way
    pen.drawImage(this.image, 0, 0, width, height);
    pen.lineWidth = 2;
    pen.font = "13px sans-serif";
    const box = ([left, top, right, bottom], colour, label) => {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.strokeRect(left * width, top * height, (right - left) * width, (bottom - top) * height);
      if (!label) return;
      // Black behind the words: they must be read on any image.
      pen.fillStyle = "#000000";
      pen.fillRect(left * width, top * height, pen.measureText(label).width + 6, 17);
      pen.fillStyle = "#ffffff";
      pen.fillText(label, left * width + 3, top * height + 13);
    };
    const dot = ([x, y], colour) => {
      pen.fillStyle = colour;
      pen.beginPath();
      pen.arc(x * width, y * height, 4, 0, 7);
      pen.fill();
    };
    const found = this.places;
    if (found.face) box(found.face, FACE, "face");
    for (const [name, colour] of Object.entries(BOXES)) {
      for (const one of found[name] || []) box(one, colour, name);
    }
    for (const one of found.text || []) box(one.box, TEXT, one.text);
    for (const eye of found.eyes || []) dot(eye, FACE);
    for (const [name, colour] of Object.entries(POINTS)) if (found[name]) dot(found[name], colour);
    if (this.start && end) box([...this.start, ...end], "#ffffff", "");
  }
}

for (const root of document.querySelectorAll(".annotator")) new Annotator(root);
