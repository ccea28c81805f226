"use strict";
for (const svg of document.querySelectorAll(".bars")) {
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  let view = [0, width];
  const show = () => {
    const span = Math.min(Math.max(view[1] - view[0], width / 1e5), width);
    const from = Math.min(Math.max(view[0], 0), width - span);
    view = [from, from + span];
    svg.setAttribute("viewBox", `${from} 0 ${span} ${height}`);
  };
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return view[0] + (event.clientX - box.left) / box.width * (view[1] - view[0]);
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const here = at(event), factor = event.deltaY < 0 ? 0.8 : 1.25;
    view = view.map((edge) => here + (edge - here) * factor);
    show();
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
  svg.addEventListener("dblclick", () => { view = [0, width]; show(); });
}
