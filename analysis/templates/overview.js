// The first plot: variants as columns, methods as rows, every run a dot; differences to the baseline as a forest.
"use strict";
const NARROW = 720, SLIMMEST = 118;

function cell(parent, tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// A long name may break behind its signs, not in the middle of a word.
function breakable(node, text) {
  text.split(/(?<=[_+\-/=])|(?<=[.,])(?!\d)/).forEach((part, i) => { if (i) node.appendChild(document.createElement("wbr")); node.append(part); });
  return node;
}

// Positions are percentages of a cell, so that a browser lays the plot out without being asked again.
function strip(parent, label) {
  const box = cell(parent, "div", "strip");
  return svg(box, "svg", { width: "100%", height: "100%", role: "img", "aria-label": label });
}
const at = (axis, v) => `${(100 * (v - axis.low) / (axis.high - axis.low)).toFixed(3)}%`;
const inside = (axis, v) => Math.min(axis.high, Math.max(axis.low, v));

function gridLines(root, axis) {
  for (const t of axis.ticks) svg(root, "line", { x1: at(axis, t), x2: at(axis, t), y1: "0", y2: "100%", class: "grid" });
}

function band(root, axis, item, method, thick) {
  if (item.low === null || item.high === null || item.low === undefined) return;
  const a = inside(axis, item.low), b = inside(axis, item.high);
  svg(root, "rect", { x: at(axis, a), y: "50%", width: `${Math.max(0.4, 100 * (b - a) / (axis.high - axis.low)).toFixed(3)}%`, height: thick, rx: 2, transform: `translate(0,${-thick / 2})`, fill: colour(method), class: "interval" });
  for (const [over, place, shift, sign] of [[item.low < axis.low, axis.low, 1, "‹"], [item.high > axis.high, axis.high, -1, "›"]])
    if (over) svg(root, "text", { x: at(axis, place), dx: shift * 4, y: "50%", dy: 5, class: "goes-on", "text-anchor": "middle", fill: colour(method) }, sign);
}

function tick(root, axis, value, method) {
  svg(root, "rect", { x: at(axis, inside(axis, value)), y: "50%", width: 3, height: 20, transform: "translate(-1.5,-10)", fill: colour(method), class: "mean" });
}

// Runs that would cover each other are moved up and down by a little.
function dotsOf(root, axis, runs, method) {
  const sorted = [...runs].sort((a, b) => a.score - b.score), close = (axis.high - axis.low) * 0.022;
  let side = 0, last = -Infinity;
  for (const run of sorted) {
    side = run.score - last < close ? (side === 0 ? -5 : side < 0 ? 5 : 0) : 0;
    last = run.score;
    svg(root, "circle", { cx: at(axis, inside(axis, run.score)), cy: "50%", r: 3.4, transform: `translate(0,${side})`, fill: colour(method), class: "run" });
  }
}

function axisOf(values, zero, count) {
  const all = values.filter((v) => v !== null && v !== undefined && isFinite(v)).concat(zero);
  let low = Math.min(...all), high = Math.max(...all);
  if (high - low < 1e-9) { high = low + 1; }
  const pad = (high - low) * 0.05;
  low = low < 0 ? low - pad : low - pad / 2; high += pad;
  return { low, high, ticks: ticks(low, high, count) };
}

function overview(box, spec) {
  box.textContent = "";
  const order = spec.order.filter(visible);
  const columns = data.variants;
  const score = (m, v) => data.points.score.find((p) => p.method === m && p.variant === v);
  const runs = (m, v) => data.seeds.filter((s) => s.method === m && s.scores[v] !== undefined).map((s) => ({ seed: s.seed, score: s.scores[v] }));
  if (!order.length) { box.textContent = nothing(data.points.score); return; }
  const wide = Math.max(280, box.clientWidth), narrow = wide < NARROW;
  const scores = order.flatMap((m) => columns.flatMap((v) => [score(m, v)?.value, ...runs(m, v).map((r) => r.score)]));
  const axis = axisOf(scores.concat(Object.values(data.random)), [0], narrow ? 4 : 3);
  const gaps = spec.difference, has = spec.baseline !== null && Object.keys(gaps).length > 0;
  const shown = order.filter((m) => gaps[m]);
  const values = shown.map((m) => gaps[m].value), reach = Math.max(1e-9, ...values.map(Math.abs));
  const ends = shown.flatMap((m) => [gaps[m].low, gaps[m].high]).filter((v) => v !== null).map((v) => Math.max(-1.6 * reach, Math.min(1.6 * reach, v)));
  const forest = axisOf(values.concat(ends), [0], 3);
  const words = data.words.overview, against = words.against.replace("{baseline}", spec.baseline);
  const mean = spec.mean;
  const seedWords = (m, v) => { const all = runs(m, v); return all.length ? "\nruns: " + all.map((r) => number(r.score, 1)).join(" · ") : ""; };

  const named = (parent, m) => {
    const name = cell(parent, "div", "name");
    const icon = svg(name, "svg", { class: "key", "aria-hidden": "true", width: 14, height: 14 });
    mark(icon, 7, 7, m, 5);
    const text = breakable(cell(name, "span"), m);
    text.style.color = colour(m);
    if (m === spec.baseline) cell(name, "small", "", "baseline");
  };
  const scoreCell = (parent, m, v) => {
    const p = score(m, v), root = strip(parent, p ? `${m} on ${v}: ${spread(p, (x) => number(x, 1))}` : `${m} was not played on ${v}`);
    gridLines(root, axis);
    if (data.random[v] !== undefined) svg(root, "line", { x1: at(axis, data.random[v]), x2: at(axis, data.random[v]), y1: "0", y2: "100%", class: "reference" });
    if (!p) { svg(root, "text", { x: "50%", y: "50%", dy: 4, class: "tick", "text-anchor": "middle" }, "not played"); return; }
    band(root, axis, p, m, 13);
    tick(root, axis, p.value, m);
    dotsOf(root, axis, runs(m, v), m);
    root.parentElement.dataset.tip = `${m} on ${v}\n${spread(p, (x) => number(x, 1))}, ${seedsText(p.n)}${seedWords(m, v)}`;
  };
  const gapCell = (parent, m) => {
    const d = gaps[m], root = strip(parent, d ? `${m} ${against}: ${d.text}` : `${m} is the baseline`);
    gridLines(root, forest);
    svg(root, "line", { x1: at(forest, 0), x2: at(forest, 0), y1: "0", y2: "100%", class: "zero" });
    if (d) { band(root, forest, d, m, 13); tick(root, forest, d.value, m); root.parentElement.dataset.tip = `${m} ${against}\n${mean}: ${d.text}`; }
    const text = cell(parent, "div", "amount");
    if (d) { const [value, ...rest] = d.text.split(" "); cell(text, "b", "", value); cell(text, "small", "", rest.join(" ")); text.style.color = colour(m); }
  };
  const axisCell = (parent, scale) => {
    const root = strip(parent, "axis"); root.parentElement.className = "strip axis-strip"; root.setAttribute("aria-hidden", "true");
    for (const t of scale.ticks) svg(root, "text", { x: at(scale, t), y: 13, class: "tick", "text-anchor": "middle" }, short(t));
  };
  const head = (parent, v) => {
    const top = cell(parent, "button", "column");
    top.type = "button"; top.value = v; top.setAttribute("aria-pressed", String(v === variant));
    top.title = `show ${v} in every part of the report`;
    breakable(cell(top, "span", "label"), v === data.clean ? `${v} (clean)` : v);
    if (data.thumbnails[v]) { const image = cell(top, "img"); image.src = data.thumbnails[v]; image.alt = ""; }
    top.addEventListener("click", () => chooseVariant(v));
  };

  if (narrow) {
    // One block below the other on a phone: first what decides, then every variant.
    const block = (className) => cell(box, "div", `block ${className}`);
    if (has) {
      const first = block("gaps");
      cell(cell(first, "div", "title"), "b", "", `${mean}, ${against}`);
      for (const m of order) { named(first, m); gapCell(first, m); }
      cell(first, "div"); axisCell(first, forest); cell(first, "div");
    }
    for (const v of columns) {
      const one = block("scores"), title = cell(one, "div", "title");
      head(title, v);
      for (const m of order) { named(one, m); scoreCell(one, m, v); }
      cell(one, "div"); axisCell(one, axis);
    }
  } else {
    const names = Math.min(230, Math.max(120, 34 + 7.4 * Math.max(...order.map((m) => Math.min(28, m.length)))));
    const rightSide = has ? 262 : 0, fits = Math.max(1, Math.floor((wide - names - rightSide) / SLIMMEST));
    const groups = [];
    for (let i = 0; i < columns.length; i += fits) groups.push(columns.slice(i, i + fits));
    groups.forEach((group, g) => {
      const last = has && g === 0;
      const grid = cell(box, "div", "board");
      grid.style.gridTemplateColumns = `${names}px repeat(${g ? fits : group.length}, minmax(0, 1fr))${last ? " minmax(0, 150px) 96px" : ""}`;
      cell(grid, "div");
      for (const v of group) head(grid, v);
      for (let i = group.length; g && i < fits; i++) cell(grid, "div");
      if (last) { const title = cell(grid, "div", "column gap-title"); cell(title, "b", "", against); cell(title, "span", "", mean); }
      for (const m of order) {
        named(grid, m);
        for (const v of group) scoreCell(grid, m, v);
        for (let i = group.length; g && i < fits; i++) cell(grid, "div");
        if (last) gapCell(grid, m);
      }
      cell(grid, "div");
      for (let i = 0; i < group.length; i++) axisCell(grid, axis);
      for (let i = group.length; g && i < fits; i++) cell(grid, "div");
      if (last) { axisCell(grid, forest); cell(grid, "div"); }
    });
  }
  const legend = cell(box, "p", "legend");
  legend.textContent = `${words.x}: dot = one training run, tick = mean, band = ${spec.band}${Object.keys(data.random).length ? ", dashed = random play" : ""}${has ? `; right: ${words.difference}` : ""}`;
}
