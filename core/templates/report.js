// Hover, zoom and sorting for the report. The page is complete without it; nothing is fetched.
"use strict";

// Where a value lies on an axis (0 to 1), and back.
function share(axis, value) {
  if (axis.kind === "log") return Math.log(Math.max(value, axis.lo) / axis.lo) / Math.log(axis.hi / axis.lo);
  return (value - axis.lo) / (axis.hi - axis.lo);
}
function valueAt(axis, part) {
  if (axis.kind === "log") return axis.lo * Math.pow(axis.hi / axis.lo, part);
  return axis.lo + part * (axis.hi - axis.lo);
}

// Round values inside [lo, hi], about eight of them.
function niceTicks(lo, hi) {
  const raw = (hi - lo) / 8;
  const decade = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * decade).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}
function logTicks(lo, hi) {
  if (hi / lo < 20) return niceTicks(lo, hi);
  const marks = hi / lo < 2000 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let n = Math.floor(Math.log10(lo)); n <= Math.ceil(Math.log10(hi)); n++)
    for (const m of marks) ticks.push(m * Math.pow(10, n));
  return ticks.filter((t) => t >= lo * 0.999 && t <= hi * 1.001);
}
// Steps of clock and calendar, seconds; core/src/report/scale.rs has the same.
const TIME_STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];
function timeTicks(lo, hi) {
  const step = 1000 * (TIME_STEPS.find((s) => s * 8000 >= hi - lo) || Math.ceil((hi - lo) / 8 / 86400e3) * 86400);
  const ticks = [];
  for (let i = Math.ceil(lo / step); i * step <= hi; i++) ticks.push(i * step);
  return ticks;
}
// A moment of UTC: midnight is named by its day, others by their time; `whole`: both.
function clock(ms, whole) {
  const text = new Date(ms).toISOString();
  const time = text.slice(11, ms % 60000 === 0 ? 16 : 19);
  return whole ? text.slice(0, 10) + " " + time : ms % 86400000 === 0 ? text.slice(5, 10) : time;
}
function shown(value) {
  const text = String(Number(value.toPrecision(6)));
  return /e/.test(text) ? text : text.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, " "));
}

function svgElement(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  return element;
}

class Plot {
  constructor(figure) {
    this.figure = figure;
    this.data = JSON.parse(figure.querySelector(".plot-data").textContent);
    this.svg = figure.querySelector("svg.plot");
    this.lines = this.svg.querySelector(".lines");
    this.axis = this.svg.querySelector(".xaxis");
    this.axisAtStart = this.axis.innerHTML;
    this.tip = figure.querySelector(".tip");
    this.reading = figure.querySelector(".reading");
    this.label = this.svg.querySelector(".deadline-label[data-dx]");
    this.view = [0, 1]; // the part of the x axis that is shown
    this.stops = [...new Set(this.data.lines.flatMap((l) => l.steps.filter((_, i) => i % 3 === 0)))].sort((a, b) => a - b);
    this.cursor = svgElement("line", { class: "cursor", y1: this.data.top, y2: this.data.bottom, visibility: "hidden" });
    this.band = svgElement("rect", { class: "band", y: this.data.top, height: this.data.bottom - this.data.top, visibility: "hidden" });
    this.svg.append(this.band, this.cursor);
    this.listen();
    figure.querySelector(".tools").hidden = false;
  }

  listen() {
    this.figure.querySelector(".tools").addEventListener("click", (event) => {
      const what = event.target.dataset && event.target.dataset.do;
      if (what) this.zoomBy({ in: 0.5, out: 2, all: Infinity }[what]);
    });
    this.svg.addEventListener("pointerdown", (event) => {
      const at = this.partAt(event);
      if (event.button !== 0 || at === null) return;
      this.dragFrom = at;
      this.svg.setPointerCapture(event.pointerId);
      event.preventDefault();
      this.figure.focus({ preventScroll: true });
    });
    this.svg.addEventListener("pointermove", (event) => this.move(event));
    this.svg.addEventListener("pointerup", (event) => this.drop(event));
    this.svg.addEventListener("pointercancel", () => this.endDrag());
    this.svg.addEventListener("pointerleave", () => this.hide());
    this.svg.addEventListener("dblclick", () => this.zoomBy(Infinity));
    this.figure.addEventListener("keydown", (event) => this.key(event));
    this.figure.addEventListener("blur", () => this.hide());
  }

  // Place of a pointer on the plotting area, 0 to 1; null outside.
  partAt(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const y = (event.clientY - box.top) * scale;
    const { left, right, top, bottom } = this.data;
    if (x < left - 12 || x > right + 12 || y < top || y > bottom + 20) return null;
    return Math.min(1, Math.max(0, (x - left) / (right - left)));
  }
  toPixel(part) { return this.data.left + part * (this.data.right - this.data.left); }
  valueOf(part) { return valueAt(this.data.x, this.view[0] + part * (this.view[1] - this.view[0])); }
  partOf(value) { return (share(this.data.x, value) - this.view[0]) / (this.view[1] - this.view[0]); }

  move(event) {
    const at = this.partAt(event);
    if (this.dragFrom !== undefined && at !== null) {
      const [a, b] = [Math.min(at, this.dragFrom), Math.max(at, this.dragFrom)];
      this.band.setAttribute("x", this.toPixel(a));
      this.band.setAttribute("width", (b - a) * (this.data.right - this.data.left));
      this.band.setAttribute("visibility", "visible");
    }
    if (at === null) return this.hide();
    this.show(this.snap(this.valueOf(at)), false);
  }
  drop(event) {
    const at = this.partAt(event);
    const from = this.dragFrom;
    this.endDrag();
    if (from === undefined || at === null || Math.abs(at - from) < 0.01) return;
    const [a, b] = [Math.min(at, from), Math.max(at, from)];
    const width = this.view[1] - this.view[0];
    this.setView(this.view[0] + a * width, this.view[0] + b * width);
  }
  endDrag() {
    this.dragFrom = undefined;
    this.band.setAttribute("visibility", "hidden");
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target !== this.figure) return;
    const keys = {
      "+": () => this.zoomBy(0.5), "=": () => this.zoomBy(0.5), "-": () => this.zoomBy(2),
      "0": () => this.zoomBy(Infinity), Escape: () => { this.hide(); this.zoomBy(Infinity); },
      ArrowLeft: () => (event.shiftKey ? this.pan(-0.25) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.pan(0.25) : this.step(1)),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
    };
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // To the neighbouring place that holds data; the view follows.
  step(by) {
    if (!this.stops.length) return;
    const last = this.stops.length - 1;
    let index = this.at === undefined ? (by < 0 ? last : 0) : this.nearest(this.at) + (Math.abs(by) === 1 ? by : 0);
    if (by === -Infinity) index = 0;
    if (by === Infinity) index = last;
    const value = this.stops[Math.min(last, Math.max(0, index))];
    const part = this.partOf(value);
    if (part < 0 || part > 1) this.pan(part < 0 ? part - 0.25 : part - 0.75);
    this.show(value, true);
  }
  nearest(value) {
    let low = 0, high = this.stops.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.stops[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }
  // The place itself if data is there, else the nearest data within a few pixels.
  snap(value) {
    if (this.found(value).length) return value;
    const i = this.nearest(value);
    const near = [this.stops[i - 1], this.stops[i]].filter((v) => v !== undefined);
    const distance = (v) => Math.abs(this.partOf(v) - this.partOf(value)) * (this.data.right - this.data.left);
    const best = near.sort((a, b) => distance(a) - distance(b))[0];
    return best !== undefined && distance(best) < 9 ? best : value;
  }
  // What each line has at this value of x: [line, from, to, value].
  found(value) {
    const found = [];
    for (const line of this.data.lines) {
      const s = line.steps;
      let low = 0, high = s.length / 3 - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (s[middle * 3] <= value) low = middle; else high = middle - 1;
      }
      if (s.length && s[low * 3] <= value && value < s[low * 3 + 1])
        found.push([line, s[low * 3], s[low * 3 + 1], s[low * 3 + 2]]);
    }
    return found;
  }

  show(value, spoken) {
    const part = this.partOf(value);
    if (part < 0 || part > 1) return this.hide();
    this.at = value;
    const x = this.toPixel(part);
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, x);
    this.cursor.setAttribute("visibility", "visible");
    const found = this.found(value).sort((a, b) => b[3] - a[3]);
    const unit = this.data.x.unit;
    const at = (v) => (this.data.x.kind === "time" ? clock(v, true) : shown(v));
    const range = found.length ? `${at(found[0][1])} to ${at(found[0][2])} ${unit}` : `${at(value)} ${unit}: nothing`;
    const rows = found.slice(0, 12).map(([line, , , v]) => {
      const what = this.data.columns && v === 1 ? "sample" : this.data.value;
      return [line, `${line.label}: ${shown(v)} ${what}`];
    });
    if (found.length > 12) rows.push([null, `… ${found.length - 12} more`]);
    this.tip.replaceChildren(document.createElement("b"));
    this.tip.firstChild.textContent = range;
    for (const [line, text] of rows) {
      const row = document.createElement("div");
      if (line) {
        const swatch = document.createElement("i");
        swatch.style.background = `var(--c${line.colour})`;
        row.append(swatch);
      }
      row.append(text);
      this.tip.append(row);
    }
    this.tip.hidden = false;
    const percent = (x / this.svg.viewBox.baseVal.width) * 100;
    this.tip.style.left = percent < 60 ? `calc(${percent}% + 10px)` : "auto";
    this.tip.style.right = percent < 60 ? "auto" : `calc(${100 - percent}% + 10px)`;
    if (spoken) this.reading.textContent = [range].concat(rows.map((r) => r[1])).join(", ");
  }
  hide() {
    this.at = undefined;
    this.tip.hidden = true;
    this.cursor.setAttribute("visibility", "hidden");
  }

  zoomBy(factor) {
    if (factor === Infinity) return this.setView(0, 1);
    const width = (this.view[1] - this.view[0]) * factor;
    const centre = this.at === undefined ? (this.view[0] + this.view[1]) / 2 : share(this.data.x, this.at);
    const part = this.at === undefined ? 0.5 : this.partOf(this.at);
    this.setView(centre - part * width, centre - part * width + width);
  }
  pan(by) {
    const width = this.view[1] - this.view[0];
    this.setView(this.view[0] + by * width, this.view[1] + by * width);
  }
  // Shows [a, b] of the axis, moved into [0, 1] and never narrower than a thousandth of it.
  setView(a, b) {
    const width = Math.min(1, Math.max(0.001, b - a));
    const from = Math.min(1 - width, Math.max(0, a));
    this.view = [from, from + width];
    const { left, right } = this.data;
    const scale = 1 / width;
    const whole = width === 1;
    this.lines.setAttribute("transform", whole ? "" : `translate(${left - scale * (left + from * (right - left))} 0) scale(${scale} 1)`);
    if (whole) this.axis.innerHTML = this.axisAtStart; else this.drawTicks();
    this.figure.dataset.zoomed = whole ? "" : "yes";
    if (this.label) {
      const part = this.partOf(this.data.deadline);
      this.label.setAttribute("visibility", part >= 0 && part <= 1 ? "visible" : "hidden");
      this.label.setAttribute("x", this.toPixel(part) + Number(this.label.dataset.dx));
    }
    if (this.at !== undefined) this.show(this.at, false);
  }
  drawTicks() {
    const lo = this.valueOf(0), hi = this.valueOf(1);
    const { kind } = this.data.x;
    const ticks = (kind === "log" ? logTicks : kind === "time" ? timeTicks : niceTicks)(lo, hi);
    this.axis.replaceChildren();
    let free = -Infinity; // core/src/report/svg.rs has the same
    for (const tick of ticks) {
      const x = this.toPixel(this.partOf(tick));
      const text = svgElement("text", { x, y: this.data.bottom + 18, "text-anchor": "middle" });
      text.textContent = kind === "time" ? clock(tick, false) : shown(tick);
      const half = text.textContent.length * 11.5;
      if (x - half < free) text.setAttribute("class", "spare"); else free = x + half + 16;
      this.axis.append(svgElement("line", { x1: x, x2: x, y1: this.data.top, y2: this.data.bottom + 4 }), text);
    }
  }
}

// Column heads with numbers sort their table, largest first.
function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!table.tBodies[0].rows[0] || table.tBodies[0].rows[0].cells[column].dataset.value === undefined) return;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => b.cells[column].dataset.value - a.cells[column].dataset.value);
      table.tBodies[0].append(...rows);
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", "descending");
    });
  });
}

// Paper has no clicks: where everything is wanted it is open and whole there, and as it was afterwards.
function preparePaper(plots) {
  let opened = [], views = [];
  addEventListener("beforeprint", () => {
    const all = document.getElementById("print-all")?.checked ?? true;
    document.body.classList.toggle("print-all", all);
    opened = all ? [...document.querySelectorAll("details:not([open])")] : [];
    opened.forEach((details) => (details.open = true));
    views = plots.map((plot) => plot.view);
    plots.forEach((plot) => { plot.hide(); plot.setView(0, 1); });
  });
  addEventListener("afterprint", () => {
    opened.forEach((details) => (details.open = false));
    plots.forEach((plot, i) => views[i] && plot.setView(views[i][0], views[i][1]));
  });
}

// A link to a closed case opens it.
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") target.open = true;
}

const plots = [...document.querySelectorAll(".plot-figure")].map((figure) => new Plot(figure));
document.querySelectorAll("table.sortable").forEach(makeSortable);
preparePaper(plots);
addEventListener("hashchange", openTarget);
openTarget();
