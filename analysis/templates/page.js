// What a reader can do with the page: hover, sort, choose a variant, switch methods on and off.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const tip = byId("tip");
for (const method of data.methods) {
  styleOf[method.name] = method;
  if (method.baseline) hidden.add(method.name);
}
const followers = [];  // parts of the page that follow the chosen variant
let variant = document.body.dataset.variant;
const firstVariant = data.variants.find((v) => v !== data.clean);
const chosenIn = (choice) => document.querySelector(`[data-choice=${choice}] [aria-pressed=true]`)?.value;
let points = chosenIn("points"), measure = chosenIn("measure"), metric = chosenIn("metric"), over = chosenIn("over") || "steps";
// Attention is often measured on few variants: its section then shows one of those, and says so.
const attended = [...new Set([...document.querySelectorAll("#attention [data-variant]")].map((e) => e.dataset.variant))];
const lookedAt = () => variant === "*" || attended.includes(variant) ? variant : data.variants.find((v) => v !== data.clean && attended.includes(v)) || attended[0];

function showTip(text, event) {
  tip.textContent = text;
  tip.hidden = false;
  const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.left = Math.max(8, x) + "px";
  tip.style.top = (below ? event.clientY + 16 : event.clientY - tip.offsetHeight - 12) + "px";
}
function hideTip() { tip.hidden = true; }
document.addEventListener("pointerover", (event) => {
  const target = event.target.closest("[data-tip]");
  if (target) showTip(target.dataset.tip, event); else if (!event.target.closest(".hit")) hideTip();
});
document.addEventListener("scroll", hideTip, { passive: true });

const words = data.words;
const formOf = (kind) => kind === "share" ? percent : (v) => number(v, 1);
const seedsText = (n) => `${n} seed${n === 1 ? "" : "s"}`;

const draw = {
  overview(box) { overview(box, data.overview); },
  points(box) {
    const plot = words[points], form = formOf(plot.kind);
    const items = data.points[points].map((p) => ({ ...p, row: p.variant, tip: `${p.method} on ${p.variant}\n${spread(p, form)}\n${seedsText(p.n)}` }));
    dots(box, { ...plot, label: plot.x, form, lines: plot.lines.length ? plot.lines : undefined, rows: data.variants, items });
  },
  slopes(box) {
    slopes(box, { seeds: data.seeds, variant: variant === "*" ? firstVariant : variant, clean: data.clean, random: data.random, title: words.slopes.title, yLabel: words.slopes.y, randomLabel: words.slopes.random });
  },
  profile(box) {
    lines(box, { series: data.profile, stepped: true, xLabel: words.profile.x, yLabel: words.profile.y, yForm: percent, title: words.profile.title });
  },
  severity(box) {
    const series = data.severity.filter((s) => s.curve === box.dataset.curve);
    lines(box, { series, xLabel: words.severity.x, yLabel: words.severity.y, title: `${words.severity.title}: ${box.dataset.curve}` });
  },
  learning(box) {
    lines(box, { series: data.learning[over], xLabel: words.learning.x[over], yLabel: words.learning.y, title: words.learning.title });
  },
  rating(box) {
    lines(box, { series: data.rating, xLabel: words.rating.x, yLabel: words.rating.y, title: words.rating.title, least: [], counted: "game", form: (v) => number(v, 0) });
  },
  twin(box) {
    const items = data.twin.map((t) => ({ method: t.method, row: t.variant, value: t[measure][0], low: t[measure][1], high: t[measure][2] }));
    const form = measure === "flip" ? percent : (v) => number(v, 2);
    for (const i of items) i.tip = `${i.method} on ${i.row}\n${data.measures[measure]}\n${spread(i, form)}`;
    dots(box, { rows: data.twin_variants, items, form, label: data.measures[measure], lines: words.twin.lines, title: words.twin.title });
  },
  taken(box) {
    const text = (t) => t.replace("{object}", data.tracked);
    scatter(box, {
      items: data.taken.map((t) => ({ method: t.method, x: t.kept, y: t.readable, faint: variant !== "*" && t.variant !== variant,
        tip: `${t.method}, seed ${t.seed} on ${t.variant}\nscore ${number(t.score, 1)}: ${percent(t.kept)} of what was learned\n${data.tracked}: R² ${number(t.r2, 2)}, ${number(t.clean_r2, 2)} on the clean game` })),
      xLabel: words.taken.x, yLabel: text(words.taken.y), title: words.taken.title, corners: Object.fromEntries(Object.entries(words.taken.corners).map(([k, t]) => [k, text(t)])),
    });
  },
  attention(box) {
    const on = lookedAt(), own = data.attention.filter((a) => a.kind === box.dataset.kind && a.metric === metric && (on === "*" || a.variant === on));
    if (!own.length) { box.textContent = `There is no ${metric} on ${on}${metric === "lag" ? ": no map there follows the object closely enough" : ""}.`; return; }
    const name = (a) => on === "*" ? `${a.object} · ${a.variant}` : a.object;
    // The ball covers a thousandth of the picture: only the ratio to chance makes objects comparable.
    const ratio = words.attention.ratios.includes(metric), axis = ratioAxis(own), at = (v, a) => ratio ? axis.at(v, a.chance) : v;
    const items = own.map((a) => ({
      method: a.method, row: name(a), value: at(a.value, a), low: at(a.low, a), high: at(a.high, a),
      tip: `${a.method} on ${a.variant} (${a.view})\n${a.object}, ${metric}: ${spread(a, (v) => number(v, 3))}` + ["chance", "static", "ceiling"].map((k) => a[k] === null ? "" : `\n${k} ${number(a[k], 3)}`).join(""),
    }));
    dots(box, {
      rows: [...new Set(own.map(name))], items, title: words.attention.title, label: words.attention.x[metric] || metric, lines: words.attention.lines[metric],
      ...(ratio ? { ticks: axis.text, places: axis.places } : {}),
    });
  },
};

function drawAll() {
  for (const box of document.querySelectorAll("[data-plot]")) draw[box.dataset.plot](box);
}

// A row or picture is there if its variant is chosen and all methods it speaks of are switched on.
function filter() {
  for (const item of document.querySelectorAll("tr[data-methods], figure[data-methods], .head[data-methods]")) {
    const off = JSON.parse(item.dataset.methods).some((m) => hidden.has(m));
    item.hidden = item.dataset.other === "true" || off;
  }
  const table = byId("matrix");
  if (table) for (const row of table.rows)
    [...row.cells].slice(1).forEach((c, i) => { c.hidden = hidden.has(data.matrix[i]); });
  const gallery = byId("gallery-empty");
  if (gallery) gallery.hidden = [...document.querySelectorAll("figure[data-variant]")].some((f) => !f.hidden);
}

function chooseVariant(value) {
  variant = value;
  for (const select of document.querySelectorAll("select.variant")) select.value = value;
  const looked = lookedAt(), shownIn = (node) => node.closest("#attention") ? looked : value;
  // What was read on the clean game stands beside what is read on the chosen variant.
  const always = (item) => item.dataset.variant === "all variants" || item.dataset.variant === data.clean && item.closest("#table-probes");
  for (const item of document.querySelectorAll("tr[data-variant], figure[data-variant]"))
    item.dataset.other = ![item.dataset.variant, "*"].includes(shownIn(item)) && !always(item) ? "true" : "";
  filter();
  // With one variant chosen its column only repeats itself, except beside the mean over all.
  for (const table of document.querySelectorAll("#table-gap, #table-twin, #table-attention, #table-faithfulness, #table-layers")) {
    const index = [...table.tHead.rows[0].cells].findIndex((c) => c.dataset.key === "variant");
    for (const row of table.rows) row.cells[index].hidden = value !== "*";
  }
  const instead = byId("attention-instead");
  if (instead) {
    instead.hidden = looked === value;
    instead.textContent = `Attention was not measured on ${value}. This is ${looked}.`;
  }
  for (const name of document.querySelectorAll(".chosen")) {
    const all = name.dataset.one === undefined ? "all variants" : firstVariant;
    name.textContent = shownIn(name) === "*" ? all : shownIn(name);
  }
  for (const follow of followers) follow(value);
  drawAll();
}
for (const select of document.querySelectorAll("select.variant")) select.addEventListener("change", () => chooseVariant(select.value));

for (const group of document.querySelectorAll("[data-choice]")) {
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
    if (group.dataset.choice === "points") points = button.value;
    if (group.dataset.choice === "measure") measure = button.value;
    if (group.dataset.choice === "metric") metric = button.value;
    if (group.dataset.choice === "over") over = button.value;
    drawAll();
  });
}

for (const chip of document.querySelectorAll("button.chip")) {
  chip.setAttribute("aria-pressed", String(!hidden.has(chip.value)));
  chip.addEventListener("click", () => {
    if (hidden.has(chip.value)) hidden.delete(chip.value); else hidden.add(chip.value);
    for (const same of document.querySelectorAll("button.chip")) same.setAttribute("aria-pressed", String(!hidden.has(same.value)));
    filter();
    drawAll();
  });
}
for (const icon of document.querySelectorAll("svg.key")) if (styleOf[icon.dataset.method]) mark(icon, 7, 7, icon.dataset.method, 5);

for (const head of document.querySelectorAll("th[data-kind] button")) {
  head.addEventListener("click", () => {
    const th = head.parentElement, table = th.closest("table"), index = [...th.parentElement.children].indexOf(th);
    const numeric = th.dataset.kind !== "text";
    // Numbers are wanted largest first, names from A; a second click turns it round.
    const first = numeric ? "descending" : "ascending";
    const now = th.getAttribute("aria-sort");
    const order = now === null ? first : now === "ascending" ? "descending" : "ascending";
    for (const other of th.parentElement.children) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => numeric ? parseFloat(row.children[index].dataset.sort) : row.children[index].dataset.sort;
    const missing = (v) => numeric && !isFinite(v);
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      return sign * (numeric ? x - y : x.localeCompare(y));
    });
    table.tBodies[0].append(...rows);
  });
}

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", () => {
    const text = button.parentElement.querySelector("code").textContent;
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => { button.textContent = "copied"; }, () => {});
  });
}

for (const zoom of document.querySelectorAll("button.zoom"))
  zoom.addEventListener("click", () => zoom.parentElement.classList.toggle("wide"));

for (const fold of document.querySelectorAll("details"))
  fold.addEventListener("toggle", () => { for (const box of fold.querySelectorAll("[data-plot]")) draw[box.dataset.plot](box); });
// A link into a folded part opens it.
function unfold() {
  const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
}
window.addEventListener("hashchange", unfold);
unfold();

let width = 0;
new ResizeObserver(() => { if (window.innerWidth !== width) { width = window.innerWidth; drawAll(); } }).observe(document.body);
chooseVariant(variant);
