// Points and curves over two axes.
import {scaleLinear, scaleLog} from "d3-scale";
import {decades} from "./axis.js";
import {drawing, path, s, textWidth} from "./dom.js";

// series: [{name, colour, points: [{x, y, name, tip, path, strong}], line}]; options: {label, x, y: {title, format, log}}
export function xy(width, series, {label, x: across, y: up, ideal}) {
  const height = width < 620 ? 280 : 330, left = 64, right = 20, top = 12, bottom = height - 42;
  const points = series.flatMap((one) => one.points);
  const scale = (axis, key, room) => {
    const values = points.map((point) => point[key]);
    const low = Math.min(...values), high = Math.max(...values);
    return axis.log ? scaleLog([low / 1.3, high * 1.3], room) : scaleLinear([0, high * 1.12], room);
  };
  const x = scale(across, "x", [left, width - right]), y = scale(up, "y", [bottom, top]);
  const xTicks = across.log ? [...new Set(points.map((point) => point.x))] : x.ticks(Math.max(3, Math.floor(width / 120)));
  const grid = [
    xTicks.map((tick) => [s("line", {class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom}), s("text", {class: "tick", x: x(tick), y: bottom + 16, "text-anchor": "middle"}, across.format(tick))]),
    (up.log ? decades(...y.domain()) : y.ticks(5)).map((tick) => [s("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}), s("text", {class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, up.format(tick))]),
    s("text", {class: "tick", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, across.title),
    s("text", {class: "tick", x: 12, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + bottom) / 2})`}, up.title),
  ];
  const through = (list) => `M${list.map((point) => `${x(point.x)} ${y(point.y)}`).join("L")}`;
  const taken = [];
  const drawn = series.map(({colour, points: its, line}) => [
    line && its.length > 1 && path(through(its), {stroke: colour, "stroke-width": 2}),
    its.map((point) => {
      const px = x(point.x), py = y(point.y);
      const marks = [s("circle", {class: "mark", cx: px, cy: py, r: point.strong ? 6.5 : 5, fill: colour, tip: point.tip, "data-path": point.path, tabindex: 0})];
      if (!point.name) return marks;
      const wide = textWidth(point.name, 12);
      for (const [dx, dy, anchor] of [[px + 10, py + 4, "start"], [px - 10, py + 4, "end"], [px, py - 11, "middle"], [px, py + 20, "middle"]]) {
        const box = {x: dx - (anchor === "end" ? wide : anchor === "middle" ? wide / 2 : 0), y: dy - 11, w: wide, h: 14};
        const clear = box.x > left && box.x + wide < width && taken.every((other) => box.x + box.w < other.x || other.x + other.w < box.x || box.y + box.h < other.y || other.y + other.h < box.y);
        if (!clear) continue;
        taken.push(box);
        marks.push(s("text", {class: point.strong ? "label strong" : "label", x: dx, y: dy, "text-anchor": anchor}, point.name));
        break;
      }
      return marks;
    }),
  ]);
  return drawing(width, height, label, grid, ideal && path(through(ideal), {class: "ideal"}), drawn);
}
