import { chart } from "./charts.js";
import { byId, h, percent, points, replace, seconds, table } from "./dom.js";
import { get, nodeLink, renderCompare, renderNode } from "./node.js";
import { Tree } from "./tree.js";

const TABS = ["node", "compare", "decisions", "skills", "budget"];
const panel = byId("panel");
let study = null, turn = 0;
const tree = new Tree(byId("canvas"), (id) => { location.hash = `#/node/${id}`; });

function route() {
  const [, tab = "node", one = "", two = ""] = location.hash.split("/");
  return { tab: TABS.includes(tab) ? tab : "node", one, two };
}

function header() {
  document.title = `${study.id}: autotrainer`;
  byId("name").textContent = study.id;
  byId("state").textContent = study.state === "running" ? `running, phase ${study.phase}` : study.state;
  byId("simulated").hidden = !study.simulated;
  byId("headline").textContent = study.headline;
  const { budget } = study;
  byId("budget").textContent = `${study.task}, ${study.model}, ${budget.text}: ${seconds(budget.used)} of ${seconds(budget.granted)} device time used` +
    (budget.reserved ? `, ${seconds(budget.reserved)} held` : "") + (study.state === "running" && budget.left_s !== null ? `, ${seconds(budget.left_s)} left` : "") + `; ${study.nodes.length} nodes`;
  byId("spent").max = budget.granted || 1;
  byId("spent").value = budget.used;
  const best = study.promoted || study.winner;
  byId("winner").hidden = !best;
  byId("winner").textContent = study.promoted ? `★ Winner ${study.promoted}` : `Best so far ${best}`;
  byId("winner").onclick = () => { location.hash = `#/node/${best}`; };
}

function decisions() {
  replace(panel, h("h2", { text: "Decisions, newest first" }), h("ul", {}, study.decisions.map((one) =>
    h("li", {}, h("span", { class: "soft small", text: `${seconds(one.t)}  ` }), one.node ? [nodeLink(one.node), " "] : null, one.node && one.words.startsWith(`${one.node} `) ? one.words.slice(one.node.length + 1) : one.words))));
}

function skills() {
  replace(panel, h("h2", { text: "Skills and their evidence in this study" }), study.skills.length ? table(["skill", "against", "tried in", "completed", "mean gain on dev"], study.skills.map((skill) => [
    skill.id, skill.treats.join(", ") || "–", h("span", {}, skill.nodes.flatMap((id) => [nodeLink(id), " "])), String(skill.n), skill.gain === null ? "–" : `${points(skill.gain)} points`]), [3, 4]) : h("p", { text: "No skill was tried." }),
    h("p", { class: "soft small", text: "The gain is of one run over what it started from, as seen during the search: it ranks, it proves nothing." }));
}

function budget() {
  const { rows, spent, granted, used } = study.budget;
  const largest = Math.max(1, ...rows.map((row) => row.total_s));
  const bar = (row) => { const one = h("span", { class: "bar" }); one.style.width = `${(90 * row.total_s) / largest}px`; return one; };
  replace(panel, h("h2", { text: "Device time" }), chart("device time charged, in seconds", [{ points: spent }], [], "second"),
    table(["for", "training", "evaluation", "together", ""], rows.map((row) => [row.name, seconds(row.train_s), seconds(row.eval_s), seconds(row.total_s), bar(row)]), [1, 2, 3]),
    h("p", { text: `${seconds(used)} of ${seconds(granted)} used.` }),
    h("h2", { text: "Base, careful, winner" }), table(["arm", "dev", "holdout", "test"], study.arms.map((arm) => [h("span", {}, arm.name, " ", h("span", { class: "soft small" }, arm.nodes.flatMap((id) => [nodeLink(id), " "]))),
      ...["dev", "holdout", "test"].map((split) => (arm.figures[split] ? percent(arm.figures[split][0]) : "–"))]), [1, 2, 3]));
}

async function show(refocus) {
  const mine = ++turn, { tab, one, two } = route(), scroll = refocus ? 0 : panel.scrollTop;
  for (const name of TABS) {
    byId(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
    byId(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
  }
  panel.setAttribute("aria-labelledby", `tab-${tab}`);
  const known = (id) => study.nodes.some((node) => node.id === id);
  const best = study.promoted || study.winner || study.nodes[0]?.id;
  try {
    if (tab === "node") {
      const id = known(one) ? one : best;
      tree.setChosen(id);
      if (!id) replace(panel, h("p", { text: "No nodes yet." }));
      else { const node = await get(`/api/nodes/${id}`); if (mine === turn) renderNode(panel, node, study); }
    } else if (tab === "compare") {
      const a = known(one) ? one : study.nodes[Math.min(1, study.nodes.length - 1)]?.id, b = known(two) ? two : best;
      tree.setChosen(b);
      const both = await get(`/api/compare/${a}/${b}`);
      if (mine === turn) renderCompare(panel, both, study);
    } else ({ decisions, skills, budget })[tab]();
  } catch (error) { replace(panel, h("p", { text: `Cannot show it: ${error.message}` })); }
  if (mine === turn) panel.scrollTop = scroll;
}

// A node's panel is drawn again only where something about the node changed: an open rollout stays open.
let drawn = "";
async function refresh() {
  study = await get("/api/study");
  header();
  tree.update(study);
  const { tab, one, two } = route();
  const about = study.nodes.filter((node) => [one, two].includes(node.id) || (!one && node.id === (study.promoted || study.winner)));
  const key = JSON.stringify(tab === "node" || tab === "compare" ? [tab, one, two, about, about.some((node) => node.active) && !panel.querySelector("details[open]") ? Date.now() : 0] : [tab, study.seq]);
  if (key !== drawn) { drawn = key; await show(false); }
}

let busy = false, again = false;
async function changed() {
  if (busy) { again = true; return; }
  busy = true;
  try { await refresh(); byId("live").textContent = study.state === "running" ? "live" : ""; } catch (error) { byId("live").textContent = error.message; }
  busy = false;
  if (again) { again = false; setTimeout(changed, 200); }
}

const events = new EventSource("/api/events");
events.addEventListener("changed", changed);
events.onerror = () => { byId("live").textContent = "connection lost, trying again"; };
window.addEventListener("hashchange", () => study && show(true));
for (const name of TABS) {
  const tab = byId(`tab-${name}`);
  tab.addEventListener("click", () => { location.hash = `#/${name}`; });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) byId(`tab-${TABS[(TABS.indexOf(name) + step + TABS.length) % TABS.length]}`).focus();
  });
}
byId("in").addEventListener("click", () => tree.zoom(0.75));
byId("out").addEventListener("click", () => tree.zoom(1.33));
byId("fit").addEventListener("click", () => { tree.moved = true; tree.fit(); });
byId("colour").addEventListener("change", (event) => tree.setColour(event.target.value));
byId("find").addEventListener("input", (event) => tree.setQuery(event.target.value));
