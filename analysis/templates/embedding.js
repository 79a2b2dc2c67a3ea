// The map of the features: states as dots, clean joined to its twin, frames of a state and of its neighbours.
"use strict";
const mapData = byId("maps") && JSON.parse(byId("maps").textContent);

function makeMap(all) {
  let map = all[0], view = 0, colouring = "x", now = null, dots = [];
  const images = new Map();
  // From blue over gray-green to yellow: readable on paper and on black, and for colour-blind readers.
  const stops = [[59, 76, 192], [33, 145, 140], [253, 187, 45]];
  function tone(share) {
    const t = Math.max(0, Math.min(1, share)) * 2, k = Math.min(1, Math.floor(t));
    return `rgb(${stops[k].map((c, i) => Math.round(c + (stops[k + 1][i] - c) * (t - k))).join(",")})`;
  }
  const options = () => ({ ...(map.tracked ? { x: `${map.tracked}: left to right`, y: `${map.tracked}: top to bottom` } : {}), value: "value", variant: "clean or variant" });
  function numbersOf(index) {
    if (colouring === "value") return map.views[index].values;
    if (colouring === "variant") return map.games.map(() => index ? 1 : 0);
    return map.places.map((p) => p && p[colouring === "x" ? 0 : 1] / map.size[colouring === "x" ? 1 : 0]);
  }
  function image(uri, then) {
    if (!images.has(uri)) { const made = new Image(); made.src = uri; images.set(uri, made); }
    const found = images.get(uri);
    if (found.complete && found.naturalWidth) then(found); else found.addEventListener("load", () => then(found), { once: true });
  }
  function frame(box, index, state, words) {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas"), caption = document.createElement("figcaption");
    const [h, w] = map.size;
    canvas.width = w; canvas.height = h; caption.textContent = words;
    figure.append(canvas, caption); box.appendChild(figure);
    image(map.views[index].frames, (sheet) => canvas.getContext("2d").drawImage(sheet, (state % map.columns) * w, Math.floor(state / map.columns) * h, w, h, 0, 0, w, h));
  }
  function choose(index, state) {
    now = [index, state];
    const box = byId("map-frames"), own = map.views[index];
    box.textContent = "";
    frame(box, 0, state, "clean");
    if (view) frame(box, view, state, map.views[view].variant);
    own.neighbours[state].forEach((other, k) => frame(box, 0, other, `neighbour ${k + 1}`));
    byId("map-words").textContent = `State ${state + 1} of game ${map.games[state] + 1}, seen as ${own.variant}: value ${number(own.values[state], 2)}${view ? `, ${number(map.views[index ? 0 : view].values[state], 2)} ${index ? "clean" : "as " + map.views[view].variant}` : ""}. Neighbours: clean states of other games, nearest first.`;
    for (const dot of dots) dot.node.classList.toggle("now", dot.index === index && dot.state === state);
  }
  function drawMap() {
    const box = byId("map-plot"), shown = view ? [0, view] : [0];
    box.textContent = "";
    const width = Math.max(280, roomOf(box)), height = Math.min(560, Math.max(300, width * 0.72));
    const g = svg(box, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "map of the features" });
    const points = shown.flatMap((i) => map.views[i].points), x = scale(...extent(points.map((p) => p[0])), 26, width - 8), y = scale(...extent(points.map((p) => p[1])), height - 26, 8);
    const values = shown.map(numbersOf), known = values.flat().filter((v) => v !== null), low = Math.min(...known), high = Math.max(...known);
    if (view) map.games.forEach((_, s) => { const [a, b] = [map.views[0].points[s], map.views[view].points[s]]; svg(g, "line", { x1: x(a[0]), y1: y(a[1]), x2: x(b[0]), y2: y(b[1]), class: "pair-line" }); });
    dots = [];
    shown.forEach((index, k) => map.views[index].points.forEach((p, s) => {
      const v = values[k][s], fill = v === null ? "var(--faint)" : tone((v - low) / ((high - low) || 1));
      const node = index ? svg(g, "rect", { x: x(p[0]) - 3.4, y: y(p[1]) - 3.4, width: 6.8, height: 6.8, fill, class: "state varied" }) : svg(g, "circle", { cx: x(p[0]), cy: y(p[1]), r: 4, fill, class: "state" });
      node.addEventListener("pointerenter", () => choose(index, s));
      dots.push({ node, index, state: s });
    }));
    const share = (k) => map.explained[k] === null ? "" : `, ${percent(map.explained[k])} of the variance`;
    const names = { pca: "principal component", tsne: "t-SNE", umap: "UMAP" }, name = names[map.projection] || map.projection;
    svg(g, "text", { x: width - 8, y: height - 6, class: "tick", "text-anchor": "end" }, `${name} 1${share(0)} →`);
    svg(g, "text", { x: -8, y: 14, class: "tick", "text-anchor": "end", transform: "rotate(-90)" }, `${name} 2${share(1)} →`);
    const words = colouring === "variant" ? `● clean${view ? `   ■ ${map.views[view].variant}` : ""}` : `● clean${view ? `   ■ ${map.views[view].variant}` : ""}   blue: ${colouring === "value" ? number(low, 2) : colouring === "x" ? "left" : "top"}, yellow: ${colouring === "value" ? number(high, 2) : colouring === "x" ? "right" : "bottom"}`;
    svg(g, "text", { x: 30, y: 18, class: "tick strong" }, words);
    byId("map-kept").textContent = view ? `The nearest clean state is its own twin for ${percent(map.views[view].kept)} of the states on ${map.views[view].variant}.` : "";
    if (now && (now[0] === 0 || now[0] === view)) choose(...now); else choose(0, 0);
  }
  function follow(name) {
    const found = map.views.findIndex((v, i) => i && v.variant === name);
    if (found > 0) view = found; else if (name === data.clean) view = 0; else if (!view) view = map.views.length > 1 ? 1 : 0;
    drawMap();
  }
  function chooseMap(index) {
    map = all[index]; now = null; images.clear();
    const select = byId("map-colour");
    select.textContent = "";
    for (const [value, text] of Object.entries(options())) select.add(new Option(text, value));
    if (!(colouring in options())) colouring = "value";
    select.value = colouring; view = 0;
    follow(variant);
  }
  all.forEach((m, i) => byId("map-agent").add(new Option(`${m.method} (seed ${m.seed})`, i)));
  byId("map-agent").addEventListener("change", (e) => chooseMap(+e.target.value));
  byId("map-colour").addEventListener("change", (e) => { colouring = e.target.value; drawMap(); });
  let room = 0;
  new ResizeObserver(() => { const wide = byId("map-plot").clientWidth; if (wide !== room) { room = wide; drawMap(); } }).observe(byId("map-plot"));
  followers.push(follow);
  chooseMap(0);
  return () => ({ agent: map.method, view: map.views[view].variant, colouring, now, dots: dots.length });
}
const featureMap = mapData && mapData.length ? makeMap(mapData) : null;
