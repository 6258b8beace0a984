import { byId, percent, replace, s } from "./dom.js";

const W = 190, H = 54, DX = 236, DY = 68;
const CULLED = 150; // nodes from which on those out of sight are not drawn
const LEGIBLE = 90; // pixels of a box's width below which nobody reads it
const STATES = { completed: "#9ccfc3", running: "#a9c8f0", evaluating: "#a9c8f0", queued: "#dfe7ee", proposed: "#dfe7ee", pruned: "#e6dcc6", failed: "#f0b8b3", crashed: "#f0b8b3", invalid: "#f0b8b3", cancelled: "#dcdcdc" };
const HUES = [160, 30, 265, 95, 340, 205, 55, 300, 130, 10];

export class Tree {
  constructor(canvas, choose) {
    this.canvas = canvas;
    this.choose = choose;
    this.colour = "score";
    this.view = null;
    this.boxes = new Map();
    this.edges = s("g", {});
    this.layer = s("g", { role: "group", "aria-label": "Nodes" });
    this.svg = s("svg", { "aria-label": "Run tree; arrow keys move between nodes, Enter opens one" }, this.edges, this.layer);
    canvas.append(this.svg);
    this.pan();
  }

  update(study) {
    const first = !this.study, known = new Set(this.boxes.keys());
    this.study = study;
    this.nodes = new Map(study.nodes.map((node) => [node.id, node]));
    this.scale = this.scaled(study.nodes);
    this.skills = [...new Set(study.nodes.flatMap((node) => node.skills))].sort();
    for (const node of study.nodes) this.box(node, !first && !known.has(node.id));
    this.lines();
    this.legend();
    if (first || !this.moved) this.fit(true);
    else this.apply();
  }

  scaled(nodes) {
    const scores = nodes.filter((node) => node.dev !== null && node.purpose !== "base").map((node) => node.dev);
    return { base: nodes.find((node) => node.purpose === "base")?.dev ?? null, low: Math.min(...scores), high: Math.max(...scores) };
  }

  box(node, isNew) {
    const key = JSON.stringify([node, this.colour, this.scale, node.id === this.chosen, this.query]);
    const old = this.boxes.get(node.id);
    if (old && old.key === key) return;
    const [fill, ink] = this.paint(node);
    const kinds = ["node", node.state, node.active && "active", node.verdict === "promoted" && "promoted", node.id === this.chosen && "chosen", this.query && !this.matches(node) && "dim", isNew && "new"];
    const star = node.verdict === "promoted" ? "★ " : "";
    const mark = node.findings.length && node.findings.some((kind) => kind !== "healthy") ? " ⚑" : "";
    const figure = node.dev !== null ? percent(node.dev) : node.state;
    const label = `${node.id}, ${node.title}, ${node.state}, dev ${percent(node.dev)}${star ? ", promoted" : ""}`;
    const group = old?.group || s("g", {
      tabindex: "0", role: "button", "data-node": node.id,
      onclick: () => this.choose(node.id), onkeydown: (event) => this.key(event, node.id),
      onfocus: () => this.show(node.id),
    });
    group.setAttribute("class", kinds.filter(Boolean).join(" "));
    group.setAttribute("aria-label", label);
    group.setAttribute("transform", `translate(${node.x * DX} ${node.y * DY})`);
    group.setAttribute("color", ink);
    replace(group, s("title", { text: `${label}\n${node.reason}` }), s("rect", { width: W, height: H, rx: 8, fill }),
      s("text", { class: "id", x: 10, y: 20, text: star + node.id + mark }), s("text", { class: "id", x: W - 10, y: 20, "text-anchor": "end", text: figure }),
      s("text", { class: "what", x: 10, y: 40, text: short(node.title, 26) }));
    if (!old) this.layer.append(group);
    this.boxes.set(node.id, { key, group });
  }

  lines() {
    const path = new Set(this.study.path);
    const drawn = [];
    for (const node of this.study.nodes) for (const id of node.parents) {
      const parent = this.nodes.get(id);
      if (!parent || (["confirm", "control"].includes(node.purpose) && id !== this.study.nodes[0].id)) continue;
      if (["confirm", "control"].includes(node.purpose)) continue;
      const [x1, y1, x2, y2] = [parent.x * DX + W, parent.y * DY + H / 2, node.x * DX, node.y * DY + H / 2];
      const kinds = `edge${path.has(id) && path.has(node.id) ? " won" : ""}${node.from ? "" : " fresh"}`;
      const edge = s("path", { class: kinds, d: `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}` });
      edge.ends = [id, node.id];
      drawn.push(edge);
    }
    for (const [row, words] of this.study.captions) {
      drawn.push(s("text", { class: "caption", x: W, y: row * DY + H / 2 + 4, "text-anchor": "end", text: short(words, 32) }));
    }
    replace(this.edges, drawn);
  }

  paint(node) {
    if (this.colour === "state") return [STATES[node.state] || "#e3e3e3", "#1b2226"];
    if (this.colour === "skill") {
      const place = this.skills.indexOf(node.skills[0]);
      return place < 0 ? ["#ececea", "#1b2226"] : [`hsl(${HUES[place % HUES.length]} 55% ${82 - 8 * (Math.floor(place / HUES.length) % 3)}%)`, "#1b2226"];
    }
    if (node.dev === null) return ["#ececea", "#1b2226"];
    if (node.purpose === "base") return ["#cfd6da", "#1b2226"];
    const { base, low, high } = this.scale;
    if (base !== null && node.dev < base) return ["#f2c79a", "#43220a"];
    const share = high > low ? (node.dev - low) / (high - low) : 1;
    // Not darker than 44 %: the dark ink keeps a contrast of 4.5 on every shade.
    return [`hsl(168 ${35 + 15 * share}% ${92 - 48 * share}%)`, "#0d2a23"];
  }

  legend() {
    const words = {
      score: `dev ${percent(this.scale.low)} pale to ${percent(this.scale.high)} dark; below base orange`,
      state: "colour is the state", skill: "a colour a skill",
    }[this.colour];
    byId("legend").textContent = `${words}; ★ promoted; ⚑ finding; dashed line: from the base model`;
  }

  setColour(name) { this.colour = name; this.redraw(); this.legend(); }
  setQuery(text) { this.query = text.trim().toLowerCase(); this.redraw(); }
  setChosen(id) { this.chosen = id; this.redraw(); }
  redraw() { if (this.study) for (const node of this.study.nodes) this.box(node, false); }
  matches(node) { return `${node.id} ${node.title} ${node.skills.join(" ")} ${node.findings.join(" ")} ${node.state}`.toLowerCase().includes(this.query); }

  key(event, id) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.choose(id); return; }
    const node = this.nodes.get(id);
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    const ahead = this.study.nodes.filter((other) => other.id !== id && (way[0] ? Math.sign(other.x - node.x) === way[0] : Math.sign(other.y - node.y) === way[1]));
    const far = (other) => way[0] ? Math.abs(other.x - node.x) * 1.5 + Math.abs(other.y - node.y) : Math.abs(other.y - node.y) + Math.abs(other.x - node.x) * 3;
    ahead.sort((a, b) => far(a) - far(b));
    if (!ahead.length) return;
    this.show(ahead[0].id); // what is not drawn cannot be focused
    this.boxes.get(ahead[0].id).group.focus();
  }

  // ---- zoom and pan: the view box in the tree's own units

  bounds() {
    const xs = this.study.nodes.map((node) => node.x), ys = this.study.nodes.map((node) => node.y);
    return [-20, -20, Math.max(0, ...xs) * DX + W + 40, Math.max(0, ...ys) * DY + H + 40];
  }
  // `legible`: a tree too large to be read as a whole begins at its best node.
  fit(legible = false) {
    const [x, y, w, hgt] = this.bounds(), ratio = (this.canvas.clientWidth || 1) / (this.canvas.clientHeight || 1);
    const whole = Math.max(w, hgt * ratio, 500), most = (W * (this.canvas.clientWidth || 800)) / LEGIBLE;
    const width = legible ? Math.min(whole, most) : whole;
    this.view = { x, y, w: width, h: width / ratio };
    const best = this.nodes.get(this.study.winner);
    if (width < whole && best) this.view.y = best.y * DY + H / 2 - this.view.h / 2;
    this.apply();
  }
  zoom(factor, cx = 0.5, cy = 0.5) {
    const v = this.view, w = Math.min(60000, Math.max(240, v.w * factor)), k = w / v.w;
    this.view = { x: v.x + v.w * cx * (1 - k), y: v.y + v.h * cy * (1 - k), w, h: v.h * k };
    this.moved = true;
    this.apply();
  }
  show(id) {
    const node = this.nodes.get(id), v = this.view, x = node.x * DX, y = node.y * DY;
    if (x < v.x || x + W > v.x + v.w) v.x = x + W / 2 - v.w / 2;
    if (y < v.y || y + H > v.y + v.h) v.y = y + H / 2 - v.h / 2;
    this.apply();
  }
  apply() {
    const v = this.view;
    this.svg.setAttribute("viewBox", `${v.x} ${v.y} ${v.w} ${v.h}`);
    if (this.study.nodes.length > CULLED) this.cull();
  }
  // Of a large tree only what is in sight, and an edge with an end in sight, is drawn.
  cull() {
    const v = this.view;
    const seen = (x, y) => x + W > v.x && x < v.x + v.w && y + H > v.y && y < v.y + v.h;
    const toggle = (element, shown) => {
      if (element.shown !== shown) { element.shown = shown; element.style.display = shown ? "" : "none"; }
    };
    for (const node of this.study.nodes) toggle(this.boxes.get(node.id).group, seen(node.x * DX, node.y * DY));
    for (const edge of this.edges.children) if (edge.ends) toggle(edge, edge.ends.some((id) => this.boxes.get(id).group.shown));
  }

  pan() {
    let last = null;
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.canvas.getBoundingClientRect();
      this.zoom(Math.exp(event.deltaY * 0.0015), (event.clientX - box.x) / box.width, (event.clientY - box.y) / box.height);
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => { last = [event.clientX, event.clientY]; });
    window.addEventListener("pointermove", (event) => {
      if (!last || !event.buttons) { last = null; return; }
      const k = this.view.w / this.canvas.clientWidth;
      this.view.x -= (event.clientX - last[0]) * k;
      this.view.y -= (event.clientY - last[1]) * k;
      last = [event.clientX, event.clientY];
      this.moved = true;
      this.apply();
    });
    window.addEventListener("resize", () => this.study && !this.moved && this.fit());
  }
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
