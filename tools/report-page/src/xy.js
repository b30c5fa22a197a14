// Points and curves over two axes.
import {scaleLinear, scaleLog} from "d3-scale";
import {decades} from "./axis.js";
import {drawing, path, s, textWidth} from "./dom.js";

// Linear axes begin at zero, unless `near`: then they show what the points tell apart.
function scaleOf(axis, values, room) {
  const low = Math.min(...values), high = Math.max(...values);
  if (axis.log) return scaleLog([low / 1.3, high * 1.3], room);
  if (!axis.near) return scaleLinear([0, high * 1.12], room);
  const margin = (high - low || high * 0.1) * 0.12;
  return scaleLinear([low - margin, high + margin], room);
}

// series: [{colour, line, points: [{x, y, name, tip, path, strong, hollow, leftward, ranges: {x: [low, high], y: [low, high]}}]}]
// options: {label, x and y: {title, format, log, near, ticks, limit: {at, name}}, ideal: [{x, y}, {x, y}]}
export function xy(width, series, {label, x: across, y: up, ideal}) {
  const height = width < 620 ? 280 : 330, right = 20, top = 16, bottom = height - 42;
  const points = series.flatMap((one) => one.points);
  const valuesOf = (axis, key) => [...points.flatMap((point) => point.ranges?.[key] ?? [point[key]]), ...(axis.limit ? [axis.limit.at] : [])];
  const y = scaleOf(up, valuesOf(up, "y"), [bottom, top]);
  const yTicks = up.log ? decades(...y.domain()) : y.ticks(5);
  const left = Math.max(44, ...yTicks.map((tick) => textWidth(up.format(tick), 11) + 30));
  const x = scaleOf(across, valuesOf(across, "x"), [left, width - right]);
  const allXTicks = across.ticks ?? (across.log ? decades(...x.domain()) : x.ticks(Math.max(3, Math.floor(width / 120))));
  // Of ticks too close to each other the later ones go.
  let last = -Infinity;
  const xTicks = [...allXTicks].sort((a, b) => a - b).filter((tick) => {
    const half = textWidth(across.format(tick), 11) / 2 + 4;
    if (x(tick) - half < last) return false;
    last = x(tick) + half;
    return true;
  });
  const grid = [
    xTicks.map((tick) => [s("line", {class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom}), s("text", {class: "tick", x: x(tick), y: bottom + 16, "text-anchor": "middle"}, across.format(tick))]),
    yTicks.map((tick) => [s("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}), s("text", {class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, up.format(tick))]),
    s("text", {class: "tick", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, across.title),
    s("text", {class: "tick", x: 10, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 10 ${(top + bottom) / 2})`}, up.title),
  ];
  const taken = points.flatMap(({x: px, y: py, ranges}) => [{x: x(px) - 6, y: y(py) - 6, w: 12, h: 12},
    ...(ranges?.x ? [{x: x(ranges.x[0]), y: y(py), w: x(ranges.x[1]) - x(ranges.x[0]), h: 1}] : []), ...(ranges?.y ? [{x: x(px), y: y(ranges.y[1]), w: 1, h: y(ranges.y[0]) - y(ranges.y[1])}] : [])]);
  if (across.limit) taken.push({x: x(across.limit.at) - 1, y: top, w: 2, h: bottom - top});
  if (up.limit) taken.push({x: left, y: y(up.limit.at) - 1, w: width - right - left, h: 2});
  const meet = (box, other) => box.x + box.w > other.x && other.x + other.w > box.x && box.y + box.h > other.y && other.y + other.h > box.y;
  // The text at the first of the places where it covers nothing.
  function put(text, places, attributes) {
    const wide = textWidth(text, 12);
    for (const [px, py, anchor] of places) {
      const box = {x: px - (anchor === "end" ? wide : anchor === "middle" ? wide / 2 : 0), y: py - 11, w: wide, h: 14};
      if (box.x < left || box.x + wide > width || box.y < 0 || taken.some((other) => meet(box, other))) continue;
      taken.push(box);
      return s("text", {x: px, y: py, "text-anchor": anchor, ...attributes}, text);
    }
    return null;
  }
  const limits = [
    across.limit && [path(`M${x(across.limit.at)} ${top}V${bottom}`, {class: "limit"}), put(across.limit.name, [[x(across.limit.at) - 6, top + 10, "end"], [x(across.limit.at) + 6, top + 10, "start"], [x(across.limit.at) - 6, bottom - 6, "end"]], {class: "label"})],
    up.limit && [path(`M${left} ${y(up.limit.at)}H${width - right}`, {class: "limit"}), put(up.limit.name, [[width - right, y(up.limit.at) - 6, "end"], [left + 6, y(up.limit.at) - 6, "start"], [width - right, y(up.limit.at) + 16, "end"]], {class: "label"})],
  ];
  const through = (list) => `M${list.map((point) => `${x(point.x)} ${y(point.y)}`).join("L")}`;
  const whiskers = ({x: px, y: py, ranges}, colour) => ranges && path([
    ranges.x && `M${x(ranges.x[0])} ${y(py)}H${x(ranges.x[1])}`, ranges.y && `M${x(px)} ${y(ranges.y[0])}V${y(ranges.y[1])}`].filter(Boolean).join(""), {class: "whisker", stroke: colour});
  const lines = series.map(({colour, points: its, line}) => [line && its.length > 1 && path(through(its), {stroke: colour, "stroke-width": 2}), its.map((point) => whiskers(point, colour))]);
  const marks = series.map(({colour, points: its}) => its.map((point) => {
    const px = x(point.x), py = y(point.y);
    return s("circle", {class: "mark", cx: px, cy: py, r: point.strong ? 6.5 : 5, fill: point.hollow ? "var(--ground)" : colour, stroke: colour, "stroke-width": point.hollow ? 2 : 0, tip: point.tip, "data-path": point.path, tabindex: 0});
  }));
  // What matters most is named first.
  const names = [...points].sort((a, b) => Boolean(b.strong) - Boolean(a.strong)).filter((point) => point.name).map((point) => {
    const px = x(point.x), py = y(point.y);
    const beside = [[px + 10, py + 4, "start"], [px - 10, py + 4, "end"]];
    return put(point.name, [...(point.leftward ? beside.reverse() : beside), [px, py - 11, "middle"], [px, py + 21, "middle"],
      [px + 8, py - 7, "start"], [px + 8, py + 16, "start"], [px - 8, py - 7, "end"], [px - 8, py + 16, "end"]], {class: point.strong ? "label strong" : "label"});
  });
  return drawing(width, height, label, grid, ideal && path(through(ideal), {class: "ideal"}), limits, lines, marks, names);
}
