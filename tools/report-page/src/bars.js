// Horizontal bars: of one part or stacked, with a range, a mark for a limit, and what they amount to in words.
import {scaleLinear} from "d3-scale";
import {drawing, fitting, s, textWidth} from "./dom.js";
import {round} from "./format.js";

const kBar = 20;
const kNarrow = 620;

let patterns = 0;
function hatch(colour) {
  const id = `hatch-${++patterns}`;
  const pattern = s("pattern", {id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
    s("rect", {width: 6, height: 6, fill: colour, "fill-opacity": 0.25}), s("rect", {width: 2.5, height: 6, fill: colour}));
  return {pattern, fill: `url(#${id})`};
}

// row: {name, text, strong, parts: [{from, to, colour, hatched, tip, path}], range: [low, high], limit: {at, tip}}
// options: {label, format, unit, max}
export function bars(width, rows, {label, format, max}) {
  const narrow = width < kNarrow, axis = round(format);
  const longest = Math.max(...rows.map((row) => textWidth(row.name, 13, row.strong ? 650 : 400)));
  const names = narrow ? 0 : Math.min(longest + 14, width * 0.34);
  const room = Math.max(...rows.map((row) => textWidth(row.text ?? "", 12))) + 14;
  const step = narrow ? kBar + 26 : kBar + 10, top = 4;
  const height = top + rows.length * step + 26;
  const ends = rows.map((row) => Math.max(...row.parts.map((part) => part.to), row.range?.[1] ?? 0, row.limit?.at ?? 0));
  const x = scaleLinear([0, max ?? Math.max(...ends)], [names, width - room]);
  const ticks = x.ticks(Math.max(2, Math.min(8, Math.floor((width - names - room) / 90))));
  const bottom = top + rows.length * step;
  const hatches = [];
  const grid = ticks.map((tick) => [
    s("line", {class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom}),
    s("text", {class: "tick", x: x(tick), y: bottom + 16, "text-anchor": tick === 0 ? "start" : "middle"}, axis(tick)),
  ]);
  const drawn = rows.map((row, index) => {
    const y = top + index * step + (narrow ? 20 : 5);
    const parts = row.parts.filter((part) => part.to > part.from).map((part) => {
      let fill = part.colour;
      if (part.hatched) {
        const made = hatch(part.colour);
        hatches.push(made.pattern);
        fill = made.fill;
      }
      const from = x(part.from), wide = x(part.to) - from;
      const gap = row.parts.length > 1 && wide > 3 ? 1 : 0;
      return s("rect", {
        class: "mark", "data-path": part.path, "data-from": part.from, "data-to": part.to,
        x: from, y, width: Math.max(0.75, wide - gap), height: kBar, rx: 1.5, fill, tip: part.tip,
      });
    });
    const marks = [];
    if (row.range) {
      const [low, high] = row.range.map(x), middle = y + kBar / 2;
      marks.push(s("path", {class: "range", d: `M${low} ${middle}H${high}M${low} ${middle - 5}v10M${high} ${middle - 5}v10`, tip: row.rangeTip}));
    }
    if (row.limit) {
      const place = x(row.limit.at);
      marks.push(s("path", {class: "limit", d: `M${place} ${y - 4}v${kBar + 8}`, tip: row.limit.tip}));
      marks.push(s("rect", {x: place - 6, y: y - 4, width: 12, height: kBar + 8, fill: "transparent", tip: row.limit.tip}));
    }
    const end = Math.max(ends[index], 0);
    return [
      s("text", {class: row.strong ? "name strong" : "name", x: 0, y: narrow ? y - 6 : y + 14},
        fitting(row.name, narrow ? width : names - 10, 13, row.strong ? 650 : 400), s("title", {}, row.name)),
      ...parts, ...marks,
      s("text", {class: "value", x: x(end) + 8, y: y + 14}, row.text ?? ""),
    ];
  });
  return drawing(width, height, label, s("defs", {}, hatches), grid, drawn);
}
