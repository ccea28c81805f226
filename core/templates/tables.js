// The style sheet shows the rows of a table below each other on a narrow page: each cell then needs its column's head.
for (const table of document.querySelectorAll("table:not(.tree)")) {
  if (!table.tHead) continue;
  table.classList.add("labelled");
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  for (const body of table.tBodies) for (const row of body.rows)
    [...row.cells].forEach((cell, column) => (cell.dataset.head = heads[column]));
}
