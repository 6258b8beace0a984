import { h, number, s } from "./dom.js";

const W = 220, H = 80, PAD = 5;

// One chart of one or two curves on shared axes; `marks` are [step, words].
export function chart(name, curves, marks = [], xWord = "step") {
  const all = curves.flatMap((curve) => curve.points).filter((point) => typeof point[1] === "number");
  if (!all.length) return null;
  const xs = all.map((point) => point[0]), ys = all.map((point) => point[1]);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const at = ([x, y]) => [
    PAD + ((W - 2 * PAD) * (x - x0)) / (x1 - x0 || 1),
    y1 > y0 ? H - PAD - ((H - 2 * PAD) * (y - y0)) / (y1 - y0) : H / 2,
  ];
  const lines = curves.map((curve) => {
    const points = curve.points.filter((point) => typeof point[1] === "number");
    if (points.length === 1) return s("circle", { cx: at(points[0])[0], cy: at(points[0])[1], r: 3, class: `curve ${curve.kind || ""}` });
    return s("polyline", { class: `curve ${curve.kind || ""}`, points: points.map((p) => at(p).map((v) => v.toFixed(1)).join(",")).join(" ") });
  });
  const drawn = marks.filter(([step]) => step >= x0 && step <= x1).map(([step, words]) => {
    const x = at([step, y0])[0];
    return s("line", { class: "onset", x1: x, x2: x, y1: 0, y2: H }, s("title", { text: words }));
  });
  const last = curves.map((curve) => (curve.points.length ? number(curve.points[curve.points.length - 1][1]) : "–")).join(" / ");
  const label = `${name}: from ${number(y0)} to ${number(y1)}, ${xWord} ${number(x0)} to ${number(x1)}, last ${last}`;
  return h("figure", {}, h("figcaption", {}, h("span", { text: name }), h("span", { text: last })),
    s("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, s("title", { text: label }), drawn, lines));
}
