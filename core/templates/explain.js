"use strict";
// 1, 2, 5 × 10ⁿ ns: the first step of which at most `most` fit.
function stepOf(span, most) {
  const decade = Math.pow(10, Math.floor(Math.log10(span / most)));
  return [1, 2, 5, 10].map((m) => m * decade).find((s) => s * most >= span);
}
function time(ns, step) {
  const [unit, per] = step < 1e3 ? ["ns", 1] : step < 1e6 ? ["µs", 1e3] : step < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  return `${Number((ns / per).toFixed(3))} ${unit}`;
}
for (const lanes of document.querySelectorAll(".lanes")) {
  const svg = lanes.querySelector(".bars"), ticks = lanes.querySelector(".ticks");
  const reading = lanes.nextElementSibling;
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const perUnit = Number(lanes.dataset.ns) / width, zero = Number(lanes.dataset.zero);
  const bars = [...svg.querySelectorAll(".bar")];
  const laneOf = (bar) => Number(bar.dataset.lane);
  let view = [0, width], chosen = null;
  const show = () => {
    const span = Math.min(Math.max(view[1] - view[0], width / 1e5), width);
    const from = Math.min(Math.max(view[0], 0), width - span);
    view = [from, from + span];
    svg.setAttribute("viewBox", `${from} 0 ${span} ${height}`);
    // A tick every 90 pixels at most.
    const ns = span * perUnit, first = from * perUnit - zero;
    const step = stepOf(ns, Math.max(2, Math.floor(svg.getBoundingClientRect().width / 90)));
    ticks.replaceChildren();
    for (let i = Math.ceil(first / step); i * step <= first + ns * 0.95; i++) {
      const tick = document.createElement("span");
      tick.style.left = `${(i * step - first) / ns * 100}%`;
      tick.textContent = time(i * step, step);
      ticks.append(tick);
    }
  };
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return view[0] + (event.clientX - box.left) / box.width * (view[1] - view[0]);
  };
  const zoom = (here, factor) => { view = view.map((edge) => here + (edge - here) * factor); show(); };
  const pan = (by) => { const span = view[1] - view[0]; view = view.map((edge) => edge + by * span); show(); };
  const choose = (bar) => {
    if (!bar) return;
    if (chosen) chosen.classList.remove("chosen");
    chosen = bar;
    chosen.classList.add("chosen");
    const name = lanes.querySelector(".names").children[laneOf(bar)].textContent;
    reading.textContent = `${name}: ${bar.querySelector("title").textContent}`;
    const from = bar.x.baseVal.value, to = from + bar.width.baseVal.value, span = view[1] - view[0];
    if (to < view[0] || from > view[1]) { view = [from - span / 10, from + span * 0.9]; show(); }
  };
  const beside = (by) => {
    if (!chosen) return choose(bars[0]);
    const next = bars[bars.indexOf(chosen) + by];
    if (next && laneOf(next) === laneOf(chosen)) choose(next);
  };
  // Lanes without a bar are passed over.
  const lane = (by) => {
    if (!chosen) return choose(bars[0]);
    const there = [...new Set(bars.map(laneOf))].sort((a, b) => a - b);
    const next = there[there.indexOf(laneOf(chosen)) + by];
    const middle = (bar) => bar.x.baseVal.value + bar.width.baseVal.value / 2;
    const off = (bar) => Math.abs(middle(bar) - middle(chosen));
    choose(bars.filter((bar) => laneOf(bar) === next).sort((a, b) => off(a) - off(b))[0]);
  };
  const all = () => { view = [0, width]; show(); };
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const middle = () => (view[0] + view[1]) / 2;
    const action = {
      "+": () => zoom(middle(), 0.5), "=": () => zoom(middle(), 0.5), "-": () => zoom(middle(), 2), "0": all, Escape: all,
      ArrowLeft: () => (event.shiftKey ? pan(-0.25) : beside(-1)), ArrowRight: () => (event.shiftKey ? pan(0.25) : beside(1)),
      ArrowUp: () => lane(-1), ArrowDown: () => lane(1),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(at(event), event.deltaY < 0 ? 0.8 : 1.25);
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = at(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", () => { held = null; });
  svg.addEventListener("pointermove", (event) => {
    if (held === null) return;
    const by = held - at(event);
    view = view.map((edge) => edge + by);
    show();
  });
  svg.addEventListener("dblclick", all);
  addEventListener("resize", show);
  addEventListener("beforeprint", all);
  show();
}
// Paper has no clicks: all evidence is open there, and as it was afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((details) => (details.open = true));
});
addEventListener("afterprint", () => opened.forEach((details) => (details.open = false)));
