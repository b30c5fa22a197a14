// One note that follows the pointer. Whatever has a `tip` ([heading, line...]) shows it on hover, tap and focus.
import {h} from "./dom.js";

const box = h("div", {class: "tip", role: "status", hidden: true});

export function showTip(lines, x, y) {
  if (!lines) return hideTip();
  const [heading, ...rest] = lines;
  box.replaceChildren(h("strong", {}, heading), ...rest.map((line) => h("div", {}, line)));
  box.hidden = false;
  const {width, height} = box.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  box.style.left = `${Math.max(8, Math.min(x + 14, room - width - 8))}px`;
  box.style.top = `${y + height + 28 > innerHeight ? Math.max(8, y - height - 12) : y + 16}px`;
}

export function hideTip() {
  box.hidden = true;
}

function carrier(node) {
  while (node && !node.tip) node = node.parentNode;
  return node;
}

export function installTips() {
  document.body.append(box);
  const move = (event) => {
    if (event.target.closest?.("canvas")) return;  // shows its own
    const node = carrier(event.target);
    showTip(node?.tip, event.clientX, event.clientY);
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerdown", move);
  document.addEventListener("focusin", (event) => {
    const node = event.target.tip ? event.target : null;
    if (!node) return;
    const at = node.getBoundingClientRect();
    showTip(node.tip, at.left + at.width / 2, at.top + at.height / 2);
  });
  document.addEventListener("focusout", hideTip);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  document.addEventListener("scroll", hideTip, {passive: true});
}
