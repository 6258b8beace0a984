// Everything from a study reaches the page as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

export const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const s = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
export const byId = (id) => document.getElementById(id);

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);
export const points = (share) =>
  share === null || share === undefined ? "–" : `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const whole = Math.max(0, Math.round(value));
  if (whole < 100) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")} min`;
  return `${Math.floor(whole / 3600)}:${String(Math.floor(whole / 60) % 60).padStart(2, "0")} h`;
}

export const number = (value) => {
  if (typeof value !== "number") return String(value ?? "–");
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
};

export function table(headings, rows, numeric = []) {
  const cell = (kind) => (value, place) => h(kind, { class: numeric.includes(place) ? "n" : null }, value ?? "");
  return h("table", {}, h("thead", {}, h("tr", {}, headings.map((text, place) => h("th", { scope: "col", class: numeric.includes(place) ? "n" : null }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell("td"))))));
}
