// The explorer: scrub through a recorded game, clean and varied beside each other, for each agent.
"use strict";
const filmData = byId("films") && JSON.parse(byId("films").textContent);

function makeExplorer(all) {
  const films = all.films, heat = all.heat, root = byId("film");
  const sprites = new Map(), tints = new Map();
  let film = films[0], picture = null, step = 0, timer = 0, plot = null;
  const on = { heat: true, truth: false, belief: true };
  const last = () => film.chosen.length - 1;

  // A sprite is decoded when it is first looked at; the page holds it as text until then.
  function sprite(uri) {
    if (!sprites.has(uri)) {
      const image = new Image();
      image.addEventListener("load", show);
      image.src = uri;
      sprites.set(uri, image);
    }
    const image = sprites.get(uri);
    return image.complete && image.naturalWidth ? image : null;
  }
  const place = (i, size) => [(i % film.columns) * size[1], Math.floor(i / film.columns) * size[0]];

  // A map's levels as colours: nothing at what an even map has, full at three times that.
  function tint(level) {
    if (!tints.has(level)) {
      const ratio = heat.full * level / (all.levels - 1);
      const hot = Math.min(1, Math.max(0, (ratio - heat.even) / (heat.full - heat.even)));
      tints.set(level, [...heat.cool.map((c, k) => Math.round(c * (1 - hot) + heat.hot[k] * hot)), Math.round(255 * heat.strength * Math.sqrt(hot))]);
    }
    return tints.get(level);
  }
  const small = document.createElement("canvas"), tinted = document.createElement("canvas");
  function drawHeat(context, view, wide, high) {
    const image = view.masks && sprite(view.masks);
    if (!image) return;
    const [h, w] = film.grid, [x, y] = place(step, film.grid);
    small.width = tinted.width = w; small.height = tinted.height = h;
    const reader = small.getContext("2d", { willReadFrequently: true });
    reader.drawImage(image, x, y, w, h, 0, 0, w, h);
    const pixels = reader.getImageData(0, 0, w, h);
    for (let i = 0; i < pixels.data.length; i += 4) pixels.data.set(tint(Math.round(pixels.data[i] * (all.levels - 1) / 255)), i);
    tinted.getContext("2d").putImageData(pixels, 0, 0);
    context.imageSmoothingEnabled = true;
    context.drawImage(tinted, 0, 0, wide, high);
    context.imageSmoothingEnabled = false;
  }
  function ring(context, at, scale, style, radius) {
    if (!at) return;
    context.beginPath(); context.arc(at[0] * scale, at[1] * scale, radius * scale, 0, 7);
    context.lineWidth = 4; context.strokeStyle = "#000"; context.stroke();
    context.lineWidth = 2; context.strokeStyle = style; context.stroke();
  }
  function drawScreen(id, index) {
    const canvas = byId(id), context = canvas.getContext("2d", { willReadFrequently: true }), [h, w] = film.size, scale = 3;
    if (canvas.width !== w * scale || canvas.height !== h * scale) { canvas.width = w * scale; canvas.height = h * scale; }
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, canvas.width, canvas.height);
    const [x, y] = place(step, film.size);
    for (const k of index ? [0, index] : [0]) { const image = sprite(film.pictures[k].frames); if (image) context.drawImage(image, x, y, w, h, 0, 0, w * scale, h * scale); }
    if (on.heat) drawHeat(context, film.pictures[index], w * scale, h * scale);
    if (on.truth && film.truth.length) ring(context, film.truth[step], scale, "#ffffff", 5);
    if (on.belief && film.belief) ring(context, film.belief.pictures[index]?.[step], scale, "#40e0ff", 7);
  }

  function drawActions() {
    const box = byId("film-actions"), clean = film.pictures[0].probs[step], varied = film.pictures[picture].probs[step];
    box.textContent = "";
    film.actions.forEach((name, a) => {
      const label = document.createElement("span");
      label.textContent = name.toLowerCase(); label.className = film.chosen[step] === a ? "played" : "";
      const pair = document.createElement("span"); pair.className = "pair";
      for (const [values, kind] of [[clean, "clean"], [varied, "varied"]]) {
        const bar = document.createElement("span"); bar.className = `bar ${kind}`; bar.style.width = `${(100 * values[a]).toFixed(1)}%`; pair.appendChild(bar);
      }
      const amounts = document.createElement("span"); amounts.className = "amounts";
      amounts.append(percent(clean[a]), document.createElement("br"), percent(varied[a]));
      box.append(label, pair, amounts);
    });
  }

  function drawLine() {
    const box = byId("film-line"), wide = Math.max(260, box.clientWidth), high = 70, line = film.pictures[picture];
    box.textContent = "";
    const g = svg(box, "svg", { viewBox: `0 0 ${wide} ${high}`, height: high, role: "img", "aria-label": "change of the policy and value over the game" });
    const x = scale(0, Math.max(1, last()), 4, wide - 4), most = Math.max(0.05, ...line.change), y = scale(0, most, high - 4, 4);
    const values = film.pictures[0].values.concat(line.values), v = scale(Math.min(...values), Math.max(...values), high - 6, 6);
    film.games.forEach((game, i) => { if (i && game !== film.games[i - 1]) svg(g, "line", { x1: x(i), x2: x(i), y1: 0, y2: high, class: "game" }); });
    svg(g, "path", { d: `M${x(0)},${high - 4}` + line.change.map((c, i) => `L${x(i)},${y(c)}`).join("") + `L${x(last())},${high - 4}Z`, class: "change" });
    for (const [own, kind] of [[film.pictures[0].values, "clean"], [line.values, "varied"]])
      svg(g, "path", { d: "M" + own.map((value, i) => `${x(i)},${v(value)}`).join("L"), class: `value ${kind}` });
    byId("film-lines").textContent = `Filled: change of the policy (JS, up to ${number(most, 2)} nats). Lines: value on the clean picture (gray) and on ${line.variant} (blue).`;
    const now = svg(g, "line", { y1: 0, y2: high, class: "now" });
    plot = { now, x };
    const go = (event) => { const b = g.getBoundingClientRect(); seek(Math.round((event.clientX - b.left) / b.width * last())); };
    g.addEventListener("pointerdown", (event) => { g.setPointerCapture(event.pointerId); go(event); });
    g.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  }

  function say() {
    const line = film.pictures[picture], change = line.change[step], best = (p) => p.indexOf(Math.max(...p));
    const a = best(film.pictures[0].probs[step]), b = best(line.probs[step]), name = (k) => film.actions[k].toLowerCase();
    const node = byId("film-say");
    node.textContent = "";
    const big = document.createElement("span"); big.className = "say-big";
    big.textContent = a === b ? `${name(a)} on both pictures` : `${name(a)} on the clean picture, ${name(b)} on ${line.variant}`;
    const rest = document.createElement("span"); rest.className = "soft small";
    rest.textContent = `policy changed by ${number(change, 3)} nats · value ${number(film.pictures[0].values[step], 2)} → ${number(line.values[step], 2)}`;
    node.append(big, document.createElement("br"), rest);
  }

  function show() {
    if (picture === null) return;
    drawScreen("film-clean", 0); drawScreen("film-varied", picture);
    drawActions(); say();
    byId("film-step").value = step;
    byId("film-clock").textContent = `step ${step + 1} of ${last() + 1} · ${short(film.scores[step])} points`;
    if (plot) { plot.now.setAttribute("x1", plot.x(step)); plot.now.setAttribute("x2", plot.x(step)); }
  }
  function seek(to) { step = Math.min(last(), Math.max(0, to)); show(); }
  const most = () => { const c = film.pictures[picture].change; seek(c.indexOf(Math.max(...c))); };
  function play(go) {
    clearInterval(timer); timer = 0;
    byId("film-play").setAttribute("aria-pressed", String(go)); byId("film-play").textContent = go ? "❚❚ pause" : "▶ play";
    if (go) timer = setInterval(() => { if (step >= last()) play(false); else seek(step + 1); }, 1000 / 15);
  }

  function choosePicture(index, keep) {
    picture = index;
    byId("film-variant").value = String(index);
    byId("film-varied-name").textContent = film.pictures[index].variant;
    byId("film-clean-name").textContent = `${film.pictures[0].variant} (played)`;
    drawLine();
    if (keep) show(); else most();
  }
  function chooseFilm(index, wanted) {
    film = films[index];
    sprites.clear();
    byId("film-agent").value = String(index);
    byId("film-step").max = last();
    const select = byId("film-variant");
    select.textContent = "";
    film.pictures.forEach((p, i) => { if (i || film.pictures.length === 1) select.add(new Option(p.variant, i)); });
    byId("film-heat").hidden = !film.pictures.some((p) => p.masks);
    byId("film-truth").hidden = !film.truth.length;
    byId("film-truth").textContent = `true ${film.tracked || "place"}`;
    byId("film-belief").hidden = !film.belief;
    if (film.belief) byId("film-belief").textContent = `where it believes the ${film.belief.object} to be`;
    byId("film-legend").textContent = `${film.method}, seed ${film.seed}, step ${short(film.step)}. Upper bar: clean picture; lower: the variant; bold: what was played.` + (film.view ? ` Attention: ${film.view === "mask" ? "its own mask" : film.view}, transparent at what an even map has, full at ${heat.full} times that.` : "");
    const found = film.pictures.findIndex((p, i) => i && p.variant === wanted);
    const mean = (p) => p.change.reduce((s, c) => s + c, 0);
    const loudest = film.pictures.reduce((a, p, i) => i && (a === 0 || mean(p) > mean(film.pictures[a])) ? i : a, 0);
    choosePicture(found > 0 ? found : loudest, false);
  }

  films.forEach((f, i) => byId("film-agent").add(new Option(`${f.method} (seed ${f.seed})`, i)));
  byId("film-agent").addEventListener("change", (e) => { play(false); chooseFilm(+e.target.value, film.pictures[picture].variant); });
  byId("film-variant").addEventListener("change", (e) => choosePicture(+e.target.value, true));
  byId("film-step").addEventListener("input", (e) => seek(+e.target.value));
  byId("film-play").addEventListener("click", () => play(!timer));
  byId("film-most").addEventListener("click", most);
  for (const key of Object.keys(on))
    byId(`film-${key}`).addEventListener("click", (e) => { on[key] = !on[key]; e.currentTarget.setAttribute("aria-pressed", String(on[key])); show(); });
  root.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
    const stride = event.shiftKey ? 10 : 1, button = event.target.tagName === "BUTTON";
    const act = { ArrowLeft: () => seek(step - stride), ArrowRight: () => seek(step + stride), Home: () => seek(0), End: () => seek(last()), m: most, M: most }[event.key] || (event.key === " " && !button ? () => play(!timer) : null);
    if (act) { event.preventDefault(); act(); }
  });
  let room = 0;
  new ResizeObserver(() => { const now = byId("film-line").clientWidth; if (now !== room) { room = now; drawLine(); show(); } }).observe(byId("film-line"));
  chooseFilm(0, variant);
  followers.push((name) => { const i = film.pictures.findIndex((p, k) => k && p.variant === name); if (i > 0) choosePicture(i, true); });
  return () => ({ agent: film.method, variant: film.pictures[picture].variant, step, playing: Boolean(timer) });
}
const explorer = filmData ? makeExplorer(filmData) : null;
