// Elements made of data. Strings become text nodes and attributes, never markup.

const kSvg = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else if (name === "tip") {
      node.tip = value;
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => filled(document.createElementNS(kSvg, tag), attributes, children);

const ruler = document.createElement("canvas").getContext("2d");
export const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", sans-serif';

// Width in pixels of a text as the drawings set it.
export function textWidth(text, size = 12, weight = 400) {
  ruler.font = `${weight} ${size}px ${kFont}`;
  return ruler.measureText(text).width;
}

// The text, or as much of its beginning as there is room for.
export function fitting(text, room, size = 12, weight = 400) {
  if (textWidth(text, size, weight) <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && textWidth(letters.join("") + "…", size, weight) > room) letters.pop();
  return letters.join("") + "…";
}

// A drawing that is read by people as a picture: what it shows is said in words, its numbers are in the table.
export function drawing(width, height, label, ...children) {
  return s("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label}, ...children);
}

export function path(data, attributes) {
  return s("path", {d: data, fill: "none", ...attributes});
}
