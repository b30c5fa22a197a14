// Achieved FLOP/s of the step's kernels against their arithmetic intensity, under the GPU's rates.
import {scaleLog} from "d3-scale";
import {decades} from "../axis.js";
import {plain} from "../colours.js";
import {drawing, path, s, textWidth} from "../dom.js";
import * as f from "../format.js";
import {legend, note, picture, section} from "../plot.js";
import {selected} from "../runs.js";
import {named, t} from "../state.js";
import {cell, numbers} from "../table.js";

const kShapes = {
  forward: {colour: plain("blue"), d: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0"},
  backward: {colour: plain("orange"), d: "M0 -6L6 0L0 6L-6 0Z"},
  input_gradient: {colour: plain("orange"), d: "M0 -6L6 0L0 6L-6 0Z"},
  weight_gradient: {colour: plain("purple"), d: "M0 -6L6 5H-6Z"},
};

function chart(width, {view: {roofline: roof}, viewPath, name}) {
  const height = width < 620 ? 320 : 380, left = 66, right = 16, top = 14, bottom = height - 40;
  const points = roof.operators;
  const xs = points.map((point) => point.flops_per_byte), ys = points.map((point) => point.flops_per_s);
  const ridge = roof.peak_flops_per_s / roof.memory_bytes_per_s;
  const x = scaleLog([Math.min(...xs, ridge / 8) / 1.6, Math.max(...xs, ridge * 4) * 1.6], [left, width - right]);
  const y = scaleLog([Math.min(...ys, roof.step_flops_per_s) / 2, roof.peak_flops_per_s * 1.7], [bottom, top]);
  const [lowX, highX] = x.domain();
  const roofPath = (flops, bytes) => {
    const bend = flops / bytes, low = y.domain()[0];
    const start = Math.max(lowX, low / bytes);
    return `M${x(start)} ${y(start * bytes)}L${x(bend)} ${y(flops)}H${x(highX)}`;
  };
  const grid = [
    decades(...x.domain()).map((tick) => [s("line", {class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom}), s("text", {class: "tick", x: x(tick), y: bottom + 16, "text-anchor": "middle"}, f.grouped(tick))]),
    decades(...y.domain()).map((tick) => [s("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}), s("text", {class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, f.round(f.flopRate)(tick).replace("FLOP/s", ""))]),
    s("text", {class: "tick", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, t("roofline.intensity")),
    s("text", {class: "tick", x: 12, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + bottom) / 2})`}, "FLOP/s"),
  ];
  const roofs = [
    path(roofPath(roof.peak_flops_per_s, roof.memory_bytes_per_s), {class: "roof", tip: [t("roofline.peak"), f.flopRate(roof.peak_flops_per_s), f.rate(roof.memory_bytes_per_s)]}),
    path(roofPath(roof.achieved_flops_per_s, roof.achieved_memory_bytes_per_s), {class: "roof reached", tip: [t("roofline.reached"), f.flopRate(roof.achieved_flops_per_s), f.rate(roof.achieved_memory_bytes_per_s)]}),
    path(`M${left} ${y(roof.step_flops_per_s)}H${width - right}`, {class: "whole", tip: [t("roofline.step"), f.flopRate(roof.step_flops_per_s)]}),
  ];
  // Labels where there is room: to the right of a mark, else left, above or below, else none; the table has all.
  const taken = points.map((point) => ({x: x(point.flops_per_byte) - 6, y: y(point.flops_per_s) - 6, w: 12, h: 12}));
  for (let px = left; px < width - right; px += 4) {
    const bytes = x.invert(px);
    for (const [flops, memory] of [[roof.peak_flops_per_s, roof.memory_bytes_per_s], [roof.achieved_flops_per_s, roof.achieved_memory_bytes_per_s], [roof.step_flops_per_s, Infinity]]) {
      taken.push({x: px, y: y(Math.min(flops, memory * bytes)) - 1, w: 4, h: 2});
    }
  }
  const free = (box) => box.x >= left && box.x + box.w <= width - 2 && box.y > top - 6 && box.y + box.h < bottom && taken.every((other) =>
    box.x + box.w < other.x || other.x + other.w < box.x || box.y + box.h < other.y || other.y + other.h < box.y);
  const placed = [];
  const put = (text, places, attributes) => {
    const wide = textWidth(text, 11), tall = 13;
    for (const [dx, dy, anchor] of places) {
      const box = {x: dx - (anchor === "end" ? wide : anchor === "middle" ? wide / 2 : 0), y: dy - 10, w: wide, h: tall};
      if (!free(box)) continue;
      taken.push(box);
      placed.push(s("text", {class: "label", x: dx, y: dy, "text-anchor": anchor, ...attributes}, text));
      return;
    }
  };
  // Of a line: at its right end, above or below, or where the roof becomes flat.
  const lineLabel = (name, flops, bend) => put(`${name} ${f.flopRate(flops)}`, [width - right, x(bend) + 12, left + 8].flatMap((px) =>
    [y(flops) - 6, y(flops) + 15].map((py) => [px, py, px === width - right ? "end" : "start"])));
  lineLabel(t("roofline.peak"), roof.peak_flops_per_s, ridge);
  lineLabel(t("roofline.step"), roof.step_flops_per_s, ridge);
  lineLabel(t("roofline.reached"), roof.achieved_flops_per_s, roof.achieved_flops_per_s / roof.achieved_memory_bytes_per_s);
  const marks = points.map((point, order) => s("path", {
    class: "mark", d: kShapes[point.pass].d, transform: `translate(${x(point.flops_per_byte)} ${y(point.flops_per_s)})`, fill: kShapes[point.pass].colour,
    "data-path": `${viewPath}/roofline/operators/${order}/flops_per_s`, tip: [`${named("operator", point.name)}, ${named("pass", point.pass)}`,
      t("roofline.at", {rate: f.flopRate(point.flops_per_s), share: f.percent(point.flops_per_s / roof.peak_flops_per_s, 0)}), t("roofline.per_byte", {intensity: f.significant(point.flops_per_byte, 3)}),
      t("roofline.takes", {time: f.seconds(point.time_s, 3)})],
  }));
  for (const point of points) {
    if (point.pass !== "forward") continue;
    const px = x(point.flops_per_byte), py = y(point.flops_per_s);
    put(named("operator", point.name), [[px + 9, py + 4, "start"], [px - 9, py + 4, "end"], [px, py - 10, "middle"], [px, py + 18, "middle"], [px + 9, py + 16, "start"], [px - 9, py - 8, "end"]]);
  }
  return drawing(width, height, t("roofline.title", {name: name()}), grid, roofs, marks, placed);
}

export function roofline() {
  const run = selected();
  if (!run.view) return null;
  const roof = run.view.roofline, base = `${run.viewPath}/roofline/operators`;
  const passes = [...new Set(roof.operators.map((point) => point.pass))];
  return section("roofline", t("roofline.title", {name: run.name()}),
    legend(passes.map((pass) => ({name: named("pass", pass), colour: kShapes[pass].colour, shape: kShapes[pass].d}))),
    picture((width) => chart(width, run)),
    note(t("roofline.note", {gpu: roof.gpu, precision: roof.precision})),
    numbers(["operator", "pass", "flops", "bytes", "time", "intensity", "rate"].map((head) => t(`column.${head}`)), roof.operators.map((point, index) => [
      named("operator", point.name), named("pass", point.pass), cell(`${base}/${index}/flops`, f.flops), cell(`${base}/${index}/bytes`, f.bytes),
      cell(`${base}/${index}/time_s`, f.seconds), cell(`${base}/${index}/flops_per_byte`, (value) => f.significant(value, 3)), cell(`${base}/${index}/flops_per_s`, f.flopRate)])));
}
