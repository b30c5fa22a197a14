// The slices of a trace file as a drawing: what `run --trace` writes, as a viewer of trace events lays it out.
import {execFileSync} from "node:child_process";
import {readFileSync} from "node:fs";

const kRow = 20, kNames = 210, kWidth = 1200, kAxis = 24;
const colours = ["#4f9fe0", "#f0a63a", "#43bd93", "#d88bb3", "#a58bd3", "#5cc5c9", "#ee7a43", "#b98a5c"];
const kindOf = (name) => name.split(/ ?(?:embedding|layers?|head|micro-batch)\b|:/)[0];
const escaped = (text) => text.replace(/[&<>]/g, (letter) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;"})[letter]);

function read(foretrain, words, file) {
  execFileSync(foretrain, [...words, "--quiet", "--trace", file]);
  return JSON.parse(readFileSync(file, "utf8")).traceEvents;
}

// Of the first `processes`, the tracks with slices in the window [from, to] (shares of the step).
export function timeline(foretrain, words, file, {processes, from, to}) {
  const events = read(foretrain, words, file);
  const of = (kind) => new Map(events.filter((event) => event.name === kind).map((event) => [`${event.pid}/${event.tid ?? ""}`, event.args.name]));
  const processNames = of("process_name"), trackNames = of("thread_name");
  const slices = events.filter((event) => event.ph === "X" && event.pid <= processes);
  const end = Math.max(...slices.map((slice) => slice.ts + slice.dur)), [begin, until] = [from * end, to * end];
  const x = (time) => kNames + ((Math.min(Math.max(time, begin), until) - begin) / (until - begin)) * (kWidth - kNames - 8);
  const inside = slices.filter((slice) => slice.ts < until && slice.ts + slice.dur > begin);
  const kinds = [...new Set(inside.map((slice) => kindOf(slice.name)))];
  const rows = new Map(), drawn = [];
  let y = kAxis;
  for (let process = 1; process <= processes; ++process) {
    drawn.push(`<text x="6" y="${y + 15}" font-weight="bold">${escaped(processNames.get(`${process}/`))}</text>`);
    y += kRow;
    for (const track of [...new Set(inside.filter((slice) => slice.pid === process).map((slice) => slice.tid))].sort((a, b) => a - b)) {
      rows.set(`${process}/${track}`, y);
      drawn.push(`<text x="16" y="${y + 14}" fill="#a0a7ae">${escaped(trackNames.get(`${process}/${track}`))}</text>`);
      y += kRow;
    }
    y += 4;
  }
  for (const slice of inside) {
    const left = x(slice.ts), wide = x(slice.ts + slice.dur) - left, top = rows.get(`${slice.pid}/${slice.tid}`);
    if (wide < 0.3) continue;
    const letters = Math.floor((wide - 6) / 6), name = slice.name.length <= letters ? slice.name : letters > 3 ? `${slice.name.slice(0, letters - 1)}…` : "";
    drawn.push(`<rect x="${left.toFixed(1)}" y="${top + 1}" width="${Math.max(0.5, wide - 0.7).toFixed(1)}" height="${kRow - 3}" fill="${colours[kinds.indexOf(kindOf(slice.name)) % colours.length]}"/>`);
    if (name) drawn.push(`<text x="${(left + 3).toFixed(1)}" y="${top + 14}" font-size="10" fill="#0d1013">${escaped(name)}</text>`);
  }
  const starts = new Map(events.filter((event) => event.ph === "s").map((event) => [event.id, event]));
  for (const arrow of events.filter((event) => event.ph === "f")) {
    const origin = starts.get(arrow.id), a = rows.get(`${origin.pid}/${origin.tid}`), b = rows.get(`${arrow.pid}/${arrow.tid}`);
    if (a === undefined || b === undefined || origin.pid === arrow.pid || origin.ts < begin || arrow.ts > until) continue;
    drawn.push(`<path d="M${x(origin.ts).toFixed(1)} ${a + 10}L${x(arrow.ts).toFixed(1)} ${b + 10}" stroke="#e7e9ea" stroke-opacity=".55" fill="none"/>`);
  }
  const step = 10 ** Math.floor(Math.log10(until - begin)), ticks = [];
  for (let time = Math.ceil(begin / step) * step; time < until; time += step) {
    ticks.push(`<text x="${x(time).toFixed(1)}" y="15" text-anchor="middle" fill="#a0a7ae">${(time / 1000).toFixed(0)} ms</text>`);
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${kWidth} ${y}" width="${kWidth}" height="${y}" font-family="system-ui, sans-serif" font-size="11" fill="#e7e9ea">\n` +
    `<rect width="${kWidth}" height="${y}" rx="8" fill="#14171a"/>\n${ticks.join("\n")}\n${drawn.join("\n")}\n</svg>\n`;
}
