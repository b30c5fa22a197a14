// A section with a picture that is redrawn when its width changes, and the table of its numbers.
import {h, s} from "./dom.js";

const watched = new Map();
const observer = new ResizeObserver((entries) => {
  for (const {target, contentRect} of entries) {
    const known = watched.get(target);
    if (known && Math.abs(known.width - contentRect.width) >= 1) redraw(target, contentRect.width);
  }
});

function redraw(target, width) {
  const known = watched.get(target);
  known.width = width;
  target.replaceChildren(known.draw(Math.max(280, Math.floor(width))));
}

// At once, and not when the browser gets to it: a page about to be printed must be whole.
export function drawPlots() {
  for (const target of watched.keys()) redraw(target, target.clientWidth);
}

export function forgetPlots() {
  observer.disconnect();
  watched.clear();
}

// Draws a picture anew that shows something else now.
export const refresh = (target) => redraw(target, target.clientWidth);

// draw(width) makes the picture.
export function picture(draw) {
  const target = h("div", {class: "picture"});
  watched.set(target, {draw, width: -1});
  observer.observe(target);
  return target;
}

export function section(id, title, ...children) {
  return h("section", {id, "aria-labelledby": `${id}-title`}, h("h2", {id: `${id}-title`}, title), ...children);
}

export const note = (...text) => h("p", {class: "note"}, ...text);

export function legend(items) {
  return h("ul", {class: "legend"}, items.map(({name, colour, hatched, shape}) =>
    h("li", {}, shape ? s("svg", {class: "sample", viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true"}, s("path", {d: shape, fill: colour})) : h("span", {class: hatched ? "swatch hatched" : "swatch", style: `--swatch:${colour}`}), name)));
}

// One of a few choices, as radio buttons.
export function choice(name, label, options, value, change) {
  return h("fieldset", {class: "choice"}, h("legend", {class: "hidden"}, label), options.map(([key, text]) =>
    h("label", {}, h("input", {type: "radio", name, value: key, checked: key === value, onchange: () => change(key)}), h("span", {}, text))));
}
