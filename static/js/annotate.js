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
    // A very large image may have no full copy yet; the small one is enough to draw on.
    this.image.addEventListener("error", () => { this.image.src = root.dataset.small; }, { once: true });
    this.image.src = root.dataset.image;
    this.start = null;
    for (const name of TOOLS) this.tool.add(new Option(name.replace("_", " "), name));
    this.tool.addEventListener("change", () => {
      this.words.hidden = this.tool.value !== "text";
      this.report("");
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

  set places(places) {
    this.field.value = JSON.stringify(places);
    this.draw();
  }

  report(text) {
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
    const places = this.places;
    const name = this.tool.value;
    const label = name.replace("_", " ");
    const small = box[2] - box[0] < 0.01 || box[3] - box[1] < 0.01;
    let message = `Drawn: ${label}. Save to keep it.`;
    if (name in POINTS) places[name] = point;
    else if (name === "eyes") {
      const eyes = (places.eyes || []).length === 1 ? [...places.eyes, point] : [point];
      places.eyes = eyes.sort((first, second) => first[0] - second[0]);
      if (eyes.length === 1) message = "Now click the other eye.";
    } else if (small || (name === "text" && !this.words.value.trim())) {
      this.report(small ? `Drag a box for the ${label}.` : "Write the words of the box first.");
      this.draw();
      return;
    } else if (name === "face") places.face = box;
    else if (name === "text") {
      places.text = [...(places.text || []), { text: this.words.value.trim(), box }];
    } else places[name] = [...(places[name] || []), box];
    this.places = places;
    this.report(message);
  }

  remove() {
    const places = this.places;
    const name = this.tool.value;
    const label = name.replace("_", " ");
    if (!places[name]) return this.report(`There is no ${label} to remove.`);
    if (name in BOXES || name === "text") {
      places[name] = places[name].slice(0, -1);
      if (!places[name].length) delete places[name];
    } else delete places[name];
    this.places = places;
    return this.report(`Removed: ${label}.`);
  }

  draw(end) {
    const pen = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    if (!this.image.naturalWidth) return; // not loaded yet
    pen.drawImage(this.image, 0, 0, width, height);
    pen.lineWidth = 2;
    pen.font = "13px sans-serif";
    const box = ([left, top, right, bottom], colour, label) => {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.strokeRect(left * width, top * height, (right - left) * width, (bottom - top) * height);
      if (!label) return;
      // A black ground makes the words readable on any image.
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
    const places = this.places;
    if (places.face) box(places.face, FACE, "face");
    for (const [name, colour] of Object.entries(BOXES)) {
      for (const area of places[name] || []) box(area, colour, name);
    }
    for (const line of places.text || []) box(line.box, TEXT, line.text);
    for (const eye of places.eyes || []) dot(eye, FACE);
    for (const [name, colour] of Object.entries(POINTS)) if (places[name]) dot(places[name], colour);
    if (this.start && end) box([...this.start, ...end], "#ffffff", "");
  }
}

for (const root of document.querySelectorAll(".annotator")) new Annotator(root);
