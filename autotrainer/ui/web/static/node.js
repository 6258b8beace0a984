import { chart } from "./charts.js";
import { h, number, percent, points, replace, seconds, table } from "./dom.js";

export async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

export const nodeLink = (id) => h("a", { href: `#/node/${id}`, text: id });
const links = (ids) => ids.flatMap((id, place) => (place ? [" ", nodeLink(id)] : [nodeLink(id)]));

const section = (title, ...content) => (content.flat(9).some(Boolean) ? [h("h2", { text: title }), ...content] : []);

export function diff(text) {
  return h("pre", { tabindex: "0", "aria-label": "difference of the harness" }, text.split("\n").map((line) =>
    h("span", { class: line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : null, text: `${line}\n` })));
}

const scoreRow = (score) => [score.split, percent(score.mean), `${percent(score.low)} to ${percent(score.high)}`, percent(score.greedy), String(score.n)];

function findings(node) {
  return node.findings.map((found) => h("div", {}, h("h3", { text: `${found.kind} (${found.severity}), from step ${found.onset_step}` }), h("p", { text: found.message }),
    h("ul", { class: "small soft" }, found.evidence.map((fact) => h("li", { text: `${fact.metric} = ${number(fact.value)} (limit ${number(fact.threshold)}), steps ${fact.steps[0]} to ${fact.steps[1]}` })))));
}

function charts(node) {
  const marks = node.findings.filter((found) => found.kind !== "healthy").map((found) => [found.onset_step, `${found.kind} from step ${found.onset_step}`]);
  return h("div", { class: "charts" }, node.curves.map((curve) => chart(curve.name, [{ points: curve.points }], marks)));
}

export function renderNode(panel, node, study) {
  const others = study.nodes.filter((other) => other.id !== node.id);
  const compare = h("select", { "aria-label": "Compare with", onchange: (event) => { if (event.target.value) location.hash = `#/compare/${event.target.value}/${node.id}`; } },
    h("option", { value: "", text: "compare with …" }), others.map((other) => h("option", { value: other.id, text: `${other.id} ${other.title}`.slice(0, 60) })));
  replace(panel,
    h("h2", { text: `${node.verdict === "promoted" ? "★ " : ""}${node.id}: ${node.title}` }),
    h("p", { class: "soft" }, `${node.purpose}, ${node.edge}, ${node.state}; from ${node.start}; seed ${node.seed}; path `, links(node.lineage)),
    h("p", {}, compare),
    section("Why", h("p", { text: node.hypothesis }), h("p", { class: "soft small" }, [node.planner && `proposed by ${node.planner}`, node.skills.length && `skill ${node.skills.join(", ")}`, node.treats.length && `against ${node.treats.join(", ")}`].filter(Boolean).join(", "), node.finding_node ? [" seen in ", nodeLink(node.finding_node)] : null)),
    section("What came of it", h("p", { text: node.came_of_it }), node.children.length ? h("p", { class: "soft" }, "went on in ", links(node.children)) : null),
    section("What changed", node.changes.length ? h("ul", {}, node.changes.map((row) => h("li", { text: row }))) : null),
    section("What it expected", node.predictions.length ? h("ul", {}, node.predictions.map((one) => h("li", { text: `${one.metric} ${one.direction}${one.why ? `: ${one.why}` : ""}` }))) : null),
    section("Scores", node.scores.length ? table(["split", "accuracy", "95 % interval", "greedy", "items"], node.scores.map(scoreRow), [1, 2, 3, 4]) : null),
    section("Findings", findings(node)),
    section(`Curves, ${node.steps} of ${node.steps_planned} steps`, node.curves.length ? charts(node) : null),
    section("Rollouts", node.rollout_steps.length ? rollouts(node) : null),
    section("Harness against the parent's", node.harness_diff ? diff(node.harness_diff) : null),
    section("Planner's trace", node.traces.map((one) => h("details", { class: "group" },
      h("summary", { text: `${one.decision} ${one.outcome}, ${one.model}${one.reason ? `: ${one.reason}` : ""}` }),
      one.rejections ? h("pre", { text: one.rejections }) : null, h("pre", { text: one.answer })))),
    section("What happened", h("ul", { class: "small" }, node.happened.map((one) => h("li", { text: `${seconds(one.t)}: ${one.words}` })))),
    section("Recipe", h("details", {}, h("summary", { text: `${Object.keys(node.recipe).length} settings` }), table(["setting", "value"], Object.entries(node.recipe)))),
    h("p", { class: "soft small", text: `${seconds(node.train_s)} of training, ${seconds(node.eval_s)} of evaluation` }));
}

function rollouts(node) {
  const steps = node.rollout_steps, list = h("div", { "aria-live": "polite" });
  const slider = h("input", { type: "range", min: 0, max: steps.length - 1, value: steps.length - 1, "aria-label": "step of the rollouts" });
  const words = h("span", { class: "soft" });
  const load = async () => {
    const step = steps[Number(slider.value)];
    words.textContent = ` step ${step}`;
    try {
      const groups = await get(`/api/nodes/${node.id}/rollouts/${step}`);
      if (steps[Number(slider.value)] === step) replace(list, groups.map(group));
    } catch (error) { replace(list, h("p", { class: "soft", text: String(error.message) })); }
  };
  slider.addEventListener("change", load);
  slider.addEventListener("input", () => { words.textContent = ` step ${steps[Number(slider.value)]}`; });
  load();
  return [h("p", {}, slider, words), list];
}

function group(one) {
  return h("details", { class: "group" },
    h("summary", {}, h("span", { class: "reward", text: `${number(one.mean)} ` }), h("span", { text: one.prompt.length > 90 ? `${one.prompt.slice(0, 90)}…` : one.prompt }), h("span", { class: "soft small", text: `  group ${one.group}, ${one.completions.length} completions` })),
    one.prompt.length > 90 ? h("pre", { text: one.prompt }) : null,
    one.completions.map((row) => h("div", { class: "completion" },
      h("span", { class: "reward", text: `reward ${number(row.reward)}` }), h("span", { class: "soft small", text: `  advantage ${number(row.advantage)}, ${row.tokens} tokens, ${row.finish_reason}, ${row.components}` }),
      h("pre", { text: row.text + (row.cut ? "\n… cut" : "") }))));
}

export function renderCompare(panel, both, study) {
  const { a, b } = both;
  const select = (side, id) => h("select", { "aria-label": `node ${side}`, onchange: (event) => { location.hash = side === "A" ? `#/compare/${event.target.value}/${b.id}` : `#/compare/${a.id}/${event.target.value}`; } },
    study.nodes.map((node) => h("option", { value: node.id, selected: node.id === id, text: `${node.id} ${node.title}`.slice(0, 50) })));
  const names = [...new Set([...a.curves, ...b.curves].map((curve) => curve.name))];
  const shifted = (node, name) => (node.curves.find((curve) => curve.name === name)?.points || []).map(([step, value]) => [node.before + step, value]);
  const figure = (score) => (score ? `${percent(score.mean)} (${percent(score.low)} to ${percent(score.high)})` : "–");
  replace(panel,
    h("h2", { text: `${a.id} against ${b.id}` }), h("p", {}, select("A", a.id), " ", select("B", b.id)),
    section("Scores", both.scores.length ? table(["split", a.id, b.id, "difference"], both.scores.map((row) => [row.split, figure(row.a), figure(row.b), row.a && row.b ? points(row.b.mean - row.a.mean) : "–"]), [3]) : null),
    section("Recipe", both.recipe.length ? table(["setting", a.id, b.id], both.recipe.map((row) => [row.key, row.a, row.b])) : h("p", { text: "equal" })),
    section("Why", h("p", {}, h("b", { text: `${a.id} ` }), a.hypothesis), h("p", {}, h("b", { text: `${b.id} ` }), b.hypothesis)),
    section("Findings", h("p", { text: `${a.id}: ${a.findings.map((one) => one.kind).join(", ") || "none"}; ${b.id}: ${b.findings.map((one) => one.kind).join(", ") || "none"}` })),
    section("Curves, by steps from the base model", names.length ? [h("p", { class: "soft small", text: `solid ${a.id}, dashed ${b.id}` }),
      h("div", { class: "charts" }, names.map((name) => chart(name, [{ points: shifted(a, name) }, { points: shifted(b, name), kind: "b" }])))] : null),
    section("Harness", both.harness_diff ? diff(both.harness_diff) : null));
}
