// Draws the report's plots as SVG from the data embedded in the page; no library, no request.
"use strict";
const NS = "http://www.w3.org/2000/svg";
const hidden = new Set();
const styleOf = {};

function svg(parent, name, attributes, text) {
  const node = document.createElementNS(NS, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// A folded part has no width yet: it is drawn as wide as the page, and again when it opens.
const roomOf = (box) => box.clientWidth || document.querySelector("main").clientWidth - 80;

function canvas(box, height, label) {
  const width = Math.max(280, roomOf(box));
  box.textContent = "";
  const root = svg(box, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  return { root, width, height, narrow: width < 560 };
}

const colour = (method) => `var(--c${styleOf[method] ? styleOf[method].colour : -1})`;
const visible = (method) => styleOf[method] !== undefined && !hidden.has(method);
const number = (v, digits) => (v === null || v === undefined) ? "–" : v.toFixed(digits).replace(/^-(?=0\.?0*$)/, "").replace("-", "−");
const percent = (v) => (v === null || v === undefined) ? "–" : number(100 * v, 0) + " %";
const spread = (p, form) => form(p.value) + (p.low === null ? ` (no interval${p.n === 1 ? ": one seed" : ""})` : ` [${form(p.low)}, ${form(p.high)}]`);

function mark(parent, x, y, method, size, extra) {
  const shape = styleOf[method].shape, s = size;
  const paths = [
    `M${x - s},${y}a${s},${s} 0 1,0 ${2 * s},0a${s},${s} 0 1,0 ${-2 * s},0`,
    `M${x - s * .9},${y - s * .9}h${1.8 * s}v${1.8 * s}h${-1.8 * s}z`,
    `M${x},${y - s * 1.1}l${s * 1.1},${s * 2}h${-2.2 * s}z`,
    `M${x},${y - s * 1.25}l${s * 1.25},${s * 1.25}l${-s * 1.25},${s * 1.25}l${-s * 1.25},${-s * 1.25}z`,
    `M${x},${y + s * 1.1}l${s * 1.1},${-s * 2}h${-2.2 * s}z`,
    `M${x - s * .4},${y - s * 1.1}h${s * .8}v${s * .7}h${s * .7}v${s * .8}h${-s * .7}v${s * .7}h${-s * .8}v${-s * .7}h${-s * .7}v${-s * .8}h${s * .7}z`,
  ];
  return svg(parent, "path", Object.assign({ d: paths[shape], fill: colour(method), class: "mark" }, extra || {}));
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw) || raw;
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}

const scale = (d0, d1, r0, r1) => (v) => r0 + (v - d0) / ((d1 - d0) || 1) * (r1 - r0);

function extent(values, extra) {
  const all = values.concat(extra || []).filter((v) => v !== null && isFinite(v));
  if (!all.length) return [0, 1];
  const low = Math.min(...all), high = Math.max(...all);
  const pad = high - low > 1e-9 ? (high - low) * 0.04 : 0.5;
  return [low - pad, high + pad];
}

function short(v) {
  const a = Math.abs(v);
  if (a >= 1e6) return number(v / 1e6, v % 1e6 ? 1 : 0) + " M";
  if (a >= 1e4) return number(v / 1e3, 0) + " k";
  if (a > 0 && a < 0.01) return String(+v.toPrecision(2)).replace("-", "−").replace("e−", "e-");
  return String(+v.toFixed(2)).replace("-", "−");
}

// Why a plot is empty: who has data but is switched off, or what data would need.
function nothing(found, missing) {
  const owners = [...new Set(found.map((f) => f.method))];
  const off = owners.length ? ` Only ${owners.join(", ")} ${owners.length > 1 ? "have" : "has"} data here, switched off above.` : "";
  return "Nothing to show." + off + (missing ? ` ${missing}` : "");
}

// A logarithmic axis of multiples of chance; 0 has no logarithm and gets a place of its own below all others.
function ratioAxis(items) {
  const log = (v, chance) => Math.log2(v / chance), known = items.filter((i) => i.chance > 0);
  const zero = Math.floor(Math.min(0, ...known.filter((i) => i.value > 0).map((i) => log(i.value, i.chance)))) - 1;
  const never = known.some((i) => i.value <= 0 || (i.low !== null && i.low <= 0));
  return {
    at: (v, chance) => v === null || !(chance > 0) ? null : v > 0 ? Math.max(zero, log(v, chance)) : zero,
    text: (t) => (never && t === zero ? "0" : String(+(2 ** t).toPrecision(5))) + "×",
    // Below two doublings round multiples, above them powers of two: either way labels are exact and differ.
    places(low, high, count) {
      const stride = Math.ceil((high - low) / count), first = Math.ceil(low / stride), last = Math.floor(high / stride);
      const powers = Array.from({ length: last - first + 1 }, (_, i) => (first + i) * stride);
      const found = high - low < 2 ? ticks(2 ** low, 2 ** high, count).map(Math.log2) : powers;
      return never ? [zero, ...found.filter((t) => t > zero)] : found;
    },
  };
}

// Rows of dots with whiskers. spec: rows [name], items [{row, method, value, low, high, tip}], form, ticks, places, label, lines [{at, text}]
function dots(box, spec) {
  const items = spec.items.filter((i) => visible(i.method) && i.value !== null);
  const methods = Object.keys(styleOf).filter((m) => items.some((i) => i.method === m));
  const rows = spec.rows.filter((r) => items.some((i) => i.row === r));
  if (!items.length) { box.textContent = nothing(spec.items.filter((i) => i.value !== null), spec.missing); return; }
  const lane = methods.length > 4 ? 12 : 17, block = 24 + lane * methods.length, top = spec.lines ? 26 : 10;
  const view = canvas(box, top + rows.length * block + 46, spec.title);
  const g = view.root, left = 8, right = view.width - 12;
  // Whiskers of few seeds can be huge: the axis follows the dots, whiskers are cut at its ends.
  const values = items.map((i) => i.value), fixed = (spec.lines || []).map((l) => l.at);
  const all = values.concat(items.flatMap((i) => [i.low, i.high]));
  const core = extent(values, fixed), full = extent(all, fixed), reach = core[1] - core[0];
  const low = Math.max(full[0], core[0] - 0.5 * reach), high = Math.min(full[1], core[1] + 0.5 * reach);
  const x = scale(low, high, left + 4, right - 4), bottom = top + rows.length * block;
  for (const t of (spec.places || ticks)(low, high, view.narrow ? 4 : 8)) {
    svg(g, "line", { x1: x(t), x2: x(t), y1: top, y2: bottom, class: "grid" });
    svg(g, "text", { x: x(t), y: bottom + 16, class: "tick", "text-anchor": "middle" }, (spec.ticks || (spec.form === percent ? percent : short))(t));
  }
  svg(g, "text", { x: (left + right) / 2, y: bottom + 36, class: "axis", "text-anchor": "middle" }, spec.label);
  for (const line of spec.lines || []) {
    svg(g, "line", { x1: x(line.at), x2: x(line.at), y1: top - 4, y2: bottom, class: "reference" });
    svg(g, "text", { x: x(line.at), y: top - 10, class: "tick strong", "text-anchor": x(line.at) > right - 40 ? "end" : x(line.at) < left + 40 ? "start" : "middle" }, line.text);
  }
  rows.forEach((row, r) => {
    const y0 = top + r * block;
    if (r) svg(g, "line", { x1: 0, x2: view.width, y1: y0, y2: y0, class: "grid" });
    svg(g, "text", { x: left, y: y0 + 17, class: "row" }, row);
    for (const item of items.filter((i) => i.row === row)) {
      const y = y0 + 28 + lane * methods.indexOf(item.method);
      if (item.low !== null && item.high !== null) {
        const a = Math.max(low, item.low), b = Math.min(high, item.high);
        svg(g, "line", { x1: x(a), x2: x(b), y1: y, y2: y, stroke: colour(item.method), class: "whisker" });
        if (item.low < low) svg(g, "path", { d: `M${x(low)},${y}l5,-4v8z`, fill: colour(item.method) });
        if (item.high > high) svg(g, "path", { d: `M${x(high)},${y}l-5,-4v8z`, fill: colour(item.method) });
      }
      mark(g, x(item.value), y, item.method, 5);
      svg(g, "rect", { x: 0, y: y - lane / 2, width: view.width, height: lane, class: "hit", "data-tip": item.tip });
    }
  });
}

// The left side of a plot: numbers, their lines, and the turned title beside the widest of them.
const margin = (places, form) => 30 + 7 * Math.max(...places.map((t) => (form || short)(t).length));
function scoreAxis(g, y, places, left, right, label, form) {
  for (const t of places) {
    svg(g, "line", { x1: left, x2: right, y1: y(t), y2: y(t), class: "grid" });
    svg(g, "text", { x: left - 8, y: y(t) + 4, class: "tick", "text-anchor": "end" }, (form || short)(t));
  }
  const middle = (y(places[0]) + y(places[places.length - 1])) / 2;
  svg(g, "text", { x: -middle, y: 12, class: "axis title", "text-anchor": "middle", transform: "rotate(-90)" }, label);
}

// Methods are named at the ends of their lines, or below the plot where there is no room beside it.
const LONGEST = 24;
const is_narrow = (box) => roomOf(box) < 560;
const view_height = (box) => is_narrow(box) ? 280 : 310;
const beside = (box, methods) => !is_narrow(box) && Math.max(...methods.map((m) => m.length)) <= LONGEST;
function names(box, view, ends, x, atEnds) {
  ends.sort((a, b) => a.y - b.y);
  if (!atEnds) {
    const list = document.createElement("div");
    list.className = "names";
    for (const e of ends) {
      const item = document.createElement("span");
      mark(svg(item, "svg", { class: "key", "aria-hidden": "true" }), 7, 7, e.method, 4);
      const text = document.createElement("span");
      text.className = "direct"; text.style.color = colour(e.method); text.textContent = e.name || e.method;
      item.appendChild(text); list.appendChild(item);
    }
    box.appendChild(list);
    return;
  }
  ends.forEach((e, i) => { if (i && e.y < ends[i - 1].y + 15) e.y = ends[i - 1].y + 15; });
  for (const e of ends) svg(view.root, "text", { x, y: e.y + 4, class: "direct", fill: colour(e.method) }, e.name || e.method);
}

// Lines with bands. spec: series [{method, points [[x, y, low, high, n]], seeds, name}], xLabel, yLabel, stepped, yForm,
// least (values the axis must hold, 0 if not given), counted (what n are), form (of values in the tip)
function lines(box, spec) {
  const series = spec.series.filter((s) => visible(s.method));
  if (!series.length) { box.textContent = nothing(spec.series); return; }
  const height = view_height(box), view = canvas(box, height, spec.title), g = view.root;
  const nameOf = (s) => s.name || s.method, counted = spec.counted || "seed", form = spec.form || ((v) => number(v, 1));
  const atEnds = !spec.stepped && beside(box, series.map(nameOf)), longest = Math.max(...series.map((s) => nameOf(s).length));
  const right = view.width - (atEnds ? 22 + 7.9 * longest : 14), top = 12, bottom = height - 44;
  const xs = series.flatMap((s) => s.points.map((p) => p[0])), means = series.flatMap((s) => s.points.map((p) => p[1]).concat((s.seeds || []).flatMap((one) => one.points.map((p) => p[1]))));
  const all = series.flatMap((s) => s.points.flatMap((p) => [p[2] ?? null, p[3] ?? null])).concat(means);
  const least = spec.least || [0], core = extent(means, least), full = extent(all, least), reach = core[1] - core[0];
  const y0 = Math.max(full[0], core[0] - 0.25 * reach), y1 = Math.min(full[1], core[1] + 0.35 * reach);
  const places = ticks(y0, y1, 5), left = margin(places, spec.yForm);
  const x = scale(Math.min(...xs), Math.max(...xs), left, right), y = scale(y0, y1, bottom, top);
  scoreAxis(g, y, places, left, right, spec.yLabel, spec.yForm);
  for (const t of ticks(Math.min(...xs), Math.max(...xs), view.narrow ? 3 : 6))
    svg(g, "text", { x: x(t), y: bottom + 18, class: "tick", "text-anchor": "middle" }, short(t));
  svg(g, "text", { x: (left + right) / 2, y: height - 6, class: "axis", "text-anchor": "middle" }, spec.xLabel);
  const clip = (v) => Math.min(y1, Math.max(y0, v)), ends = [];
  for (const s of series) {
    const banded = s.points.filter((p) => p[2] != null && p[3] != null);
    if (banded.length > 1)
      svg(g, "path", { d: "M" + banded.map((p) => `${x(p[0])},${y(clip(p[3]))}`).join("L") + "L" + banded.slice().reverse().map((p) => `${x(p[0])},${y(clip(p[2]))}`).join("L") + "Z", fill: colour(s.method), class: series.length > 3 ? "band many" : "band" });
    for (const one of s.seeds || []) svg(g, "path", { d: "M" + one.points.map((p) => `${x(p[0])},${y(clip(p[1]))}`).join("L"), stroke: colour(s.method), class: "thin" });
    const path = spec.stepped ? s.points.map((p, i) => i ? `H${x(p[0])}V${y(p[1])}` : `${x(p[0])},${y(p[1])}`).join("") : s.points.map((p) => `${x(p[0])},${y(p[1])}`).join("L");
    svg(g, "path", { d: "M" + path, stroke: colour(s.method), class: "line" });
    if (s.points.length < 12 && !spec.stepped) for (const p of s.points) mark(g, x(p[0]), y(p[1]), s.method, 4);
    const last = s.points[s.points.length - 1];
    ends.push({ method: s.method, name: nameOf(s), y: y(last[1]) });
  }
  names(box, view, ends, right + 8, atEnds);
  const ruler = svg(g, "line", { x1: 0, x2: 0, y1: top, y2: bottom, class: "ruler", visibility: "hidden" });
  const hit = svg(g, "rect", { x: left, y: top, width: right - left, height: bottom - top, class: "hit" });
  hit.addEventListener("pointermove", (event) => {
    const bounds = view.root.getBoundingClientRect();
    const at = (event.clientX - bounds.left) * view.width / bounds.width;
    const nearest = xs.reduce((a, b) => Math.abs(x(b) - at) < Math.abs(x(a) - at) ? b : a);
    ruler.setAttribute("visibility", "visible");
    ruler.setAttribute("x1", x(nearest)); ruler.setAttribute("x2", x(nearest));
    const tip = [`${spec.xLabel}: ${short(nearest)}`];
    for (const s of series) {
      const before = s.points.filter((q) => q[0] <= nearest);
      const p = spec.stepped ? before[before.length - 1] || [nearest, 1] : s.points.reduce((a, b) => Math.abs(b[0] - nearest) < Math.abs(a[0] - nearest) ? b : a);
      if (spec.stepped) { tip.push(`${s.method}: ${percent(p[1])}`); continue; }
      tip.push(`${nameOf(s)}: ${spread({ value: p[1], low: p[2], high: p[3] }, form)}, ${p[4]} ${counted}${p[4] === 1 ? "" : "s"}`);
    }
    showTip(tip.join("\n"), event);
  });
  hit.addEventListener("pointerleave", () => { ruler.setAttribute("visibility", "hidden"); hideTip(); });
}

// Each seed from the clean game to the variant. spec: seeds [{method, seed, scores}], variant, clean, random
function slopes(box, spec) {
  const seeds = spec.seeds.filter((s) => visible(s.method) && s.scores[spec.variant] !== undefined && s.scores[spec.clean] !== undefined);
  if (!seeds.length) { box.textContent = `No visible method was evaluated on both ${spec.clean} and ${spec.variant}.`; return; }
  const methods = Object.keys(styleOf).filter((m) => seeds.some((s) => s.method === m));
  const height = view_height(box), view = canvas(box, height, spec.title), g = view.root, atEnds = beside(box, methods);
  const x1 = view.width - (atEnds ? 226 : 60), top = 16, bottom = height - 40;
  const random = spec.random;
  const values = seeds.flatMap((s) => [s.scores[spec.clean], s.scores[spec.variant]]);
  const [low, high] = extent(values, [0].concat(Object.values(random).length ? [random[spec.clean], random[spec.variant]] : []));
  const y = scale(low, high, bottom, top), places = ticks(low, high, 5), left = margin(places), x0 = left + 40;
  scoreAxis(g, y, places, left, x1 + 20, spec.yLabel);
  svg(g, "text", { x: x0, y: bottom + 24, class: "row", "text-anchor": "middle" }, "clean");
  svg(g, "text", { x: atEnds ? x1 : view.width - 4, y: bottom + 24, class: "row", "text-anchor": atEnds ? "middle" : "end" }, spec.variant);
  if (random[spec.clean] !== undefined && random[spec.variant] !== undefined) {
    svg(g, "line", { x1: x0, x2: x1, y1: y(random[spec.clean]), y2: y(random[spec.variant]), class: "reference" });
    if (!view.narrow) svg(g, "text", { x: (x0 + x1) / 2, y: y((random[spec.clean] + random[spec.variant]) / 2) - 5, class: "tick", "text-anchor": "middle" }, spec.randomLabel);
  }
  const ends = [];
  for (const method of methods) {
    const own = seeds.filter((s) => s.method === method);
    for (const s of own) {
      const a = s.scores[spec.clean], b = s.scores[spec.variant];
      const tip = `${method}, seed ${s.seed}\nclean ${number(a, 1)} → ${spec.variant} ${number(b, 1)}\ngap ${number(a - b, 1)} points`;
      svg(g, "line", { x1: x0, x2: x1, y1: y(a), y2: y(b), stroke: colour(method), class: "seed" });
      mark(g, x0, y(a), method, 4); mark(g, x1, y(b), method, 4);
      svg(g, "line", { x1: x0, x2: x1, y1: y(a), y2: y(b), class: "hit wide", "data-tip": tip });
    }
    const mean = own.reduce((t, s) => t + s.scores[spec.variant], 0) / own.length;
    ends.push({ method, y: y(mean) });
  }
  names(box, view, ends, x1 + 26, atEnds);
}

// Two shares against each other, a mark a run; corners say what it means to be there.
function scatter(box, spec) {
  const items = spec.items.filter((i) => visible(i.method));
  if (!items.length) { box.textContent = nothing(spec.items); return; }
  const view = canvas(box, is_narrow(box) ? 320 : 380, spec.title), g = view.root;
  const share = (values) => [Math.min(0, ...values), Math.max(1, ...values)].map((v) => Math.max(-0.25, Math.min(1.5, v)));
  const [x0, x1] = share(items.map((i) => i.x)), [y0, y1] = share(items.map((i) => i.y));
  const places = ticks(y0, y1, 5), left = margin(places, percent), right = view.width - 16, top = 16, bottom = view.height - 46;
  const x = scale(x0 - 0.03, x1 + 0.03, left, right), y = scale(y0 - 0.12, y1 + 0.12, bottom, top), inRange = (v, a, b) => Math.max(a, Math.min(b, v));
  scoreAxis(g, y, places, left, right, spec.yLabel, percent);
  for (const t of ticks(x0, x1, view.narrow ? 4 : 6)) {
    svg(g, "line", { x1: x(t), x2: x(t), y1: top, y2: bottom, class: "grid" });
    svg(g, "text", { x: x(t), y: bottom + 16, class: "tick", "text-anchor": "middle" }, percent(t));
  }
  svg(g, "line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), class: "reference" });
  svg(g, "text", { x: (left + right) / 2, y: bottom + 36, class: "axis", "text-anchor": "middle" }, spec.xLabel);
  const corner = (px, py, anchor, text) => svg(g, "text", { x: px, y: py, class: "tick strong corner", "text-anchor": anchor }, text);
  corner(right - 4, top + 14, "end", spec.corners.kept); corner(left + 6, top + 14, "start", spec.corners.unused); corner(left + 6, bottom - 8, "start", spec.corners.lost);
  for (const faint of [true, false]) for (const i of items.filter((item) => Boolean(item.faint) === faint))
    mark(g, x(inRange(i.x, x0, x1)), y(inRange(i.y, y0, y1)), i.method, faint ? 4 : 6, { "data-tip": i.tip, opacity: faint ? 0.35 : 1 });
}
