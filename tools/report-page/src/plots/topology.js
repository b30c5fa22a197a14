// The hardware graph of one node and the fabric, and how busy the step keeps each link.
import {scaleLinear} from "d3-scale";
import {drawing, h, path, s, textWidth} from "../dom.js";
import * as f from "../format.js";
import {note, picture, section} from "../plot.js";
import {selected} from "../runs.js";
import {named, t} from "../state.js";
import {cell, numbers} from "../table.js";

const kDeepest = 150;  // of an arc between GPUs
const kMostGpus = 16;  // more are alike, and would not be told apart
const kinds = ["socket", "pcie switch", "gpu", "nic", "nvswitch", "nvme"];

const place = (name) => {
  const [, kind, number] = /^(.*) (\d+)$/.exec(name) ?? [null, name, "0"];
  return {name, kind, number: Number(number)};
};

// The two directions of a link are one line; so are what a NIC sends and receives.
function joined(links) {
  const edges = new Map();
  const budgets = [];
  const drives = links.some((link) => link.kind === "nvme" && link.load > 0);
  const lastSocket = links.map((link) => link.from).filter((name) => /^socket \d+$/.test(name)).sort().pop() ?? "socket 0";
  const add = (a, b, link) => {
    const key = [a, b].sort().join("|");
    if (!edges.has(key)) edges.set(key, {a, b, ways: []});
    edges.get(key).ways.push(link);
  };
  for (const link of links) {
    const nic = /^(nic \d+) (sends|receives)$/.exec(link.from);
    if (link.to) add(link.from, link.to, link);
    else if (nic) add(nic[1], "fabric", link);
    else if (link.kind === "nvme" && drives) add("nvme 0", lastSocket, link);
    else budgets.push(link);
  }
  return {edges: [...edges.values()], budgets};
}

const describe = (link) => `${link.to ? `${link.from} → ${link.to}` : link.from}: ${t("topology.busy", {share: f.percent(link.load)})}, ${f.bytes(link.bytes_per_step)} / ${f.rate(link.bytes_per_s)}`;
const busiest = (ways) => Math.max(...ways.map((link) => link.load));

const strength = scaleLinear([0, 1], [12, 100]).clamp(true);
const ink = (load) => (load < 0.0005 ? "var(--line-strong)" : `color-mix(in oklab, var(--load) ${strength(Math.sqrt(load)).toFixed(0)}%, var(--line))`);
const thick = (load) => 1.2 + 5.5 * Math.sqrt(load);

// Rows from top to bottom: sockets, PCIe switches, GPUs with the NICs beside them, NVSwitch, fabric.
function layout(width, topology, edges) {
  const names = new Set(edges.flatMap(({a, b}) => [a, b]));
  const places = [...names].map(place).filter((its) => kinds.includes(its.kind) && (its.kind !== "gpu" || its.number < kMostGpus));
  const of = (kind) => places.filter((its) => its.kind === kind).sort((a, b) => a.number - b.number);
  const neighbours = (name) => edges.filter(({a, b}) => a === name || b === name).map(({a, b}) => (a === name ? b : a));
  const rankOf = (its) => Math.min(...neighbours(its.name).map(place).filter((other) => other.kind === "pcie switch" || other.kind === "socket").map((other) => (other.kind === "socket" ? 1000 : 0) + other.number), 9999);
  const nics = topology.nodes > 1 ? of("nic").filter((nic) => rankOf(nic) < 9999) : [];
  const shownSwitch = new Set(of("gpu").flatMap((gpu) => neighbours(gpu.name)));
  const devices = [...of("gpu"), ...nics.filter((nic) => neighbours(nic.name).some((name) => shownSwitch.has(name)))]
    .sort((a, b) => rankOf(a) - rankOf(b) || kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || a.number - b.number);
  const narrow = width < 620;
  const at = new Map();
  const box = (its, x, y, w, tall, text) => at.set(its.name, {...its, x, y, w, h: tall, text});
  const slot = width / devices.length, deviceW = Math.min(62, slot - (narrow ? 3 : 4));
  const rows = {socket: 8, switch: 88, device: 168};
  const deviceH = 34;
  devices.forEach((its, index) => box(its, slot * (index + 0.5) - deviceW / 2, rows.device, deviceW, deviceH, its.kind === "gpu" ? (deviceW > 50 ? `GPU ${its.number}` : `${narrow && deviceW < 26 ? "" : "G"}${its.number}`) : deviceW > 50 ? `NIC ${its.number}` : `${narrow && deviceW < 26 ? "n" : "N"}${its.number}`));
  const centre = (names) => {
    const xs = names.map((name) => at.get(name)).filter(Boolean).map((its) => its.x + its.w / 2);
    return xs.length ? (Math.min(...xs) + Math.max(...xs)) / 2 : null;
  };
  const switches = of("pcie switch").map((its) => ({its, x: centre(neighbours(its.name).filter((name) => /^(gpu|nic)/.test(name)))})).filter(({x}) => x !== null);
  const switchW = Math.min(narrow ? 62 : 108, width / switches.length - 4);
  for (const {its, x} of switches) {
    box(its, x - switchW / 2, rows.switch, switchW, 28, switchW < 56 ? `P${its.number}` : narrow ? `PCIe ${its.number}` : t("topology.pcie_switch", {number: its.number}));
  }
  const sockets = of("socket");
  sockets.forEach((its, index) => {
    const x = centre(neighbours(its.name).filter((name) => /^(pcie switch|gpu|nic)/.test(name))) ?? (width * (index + 0.5)) / sockets.length;
    const wide = Math.min(narrow ? 104 : 150, width / sockets.length - 8);
    box(its, Math.max(0, Math.min(x - wide / 2, width - wide)), rows.socket, wide, 32, narrow ? t("topology.socket_short", {number: its.number}) : t("topology.socket", {number: its.number}));
  });
  const last = at.get(sockets[sockets.length - 1]?.name);
  for (const its of of("nvme")) {
    const wide = 54;
    box(its, Math.min(last.x + last.w + 40, width - wide), rows.socket, wide, 32, "NVMe");
  }
  let y = rows.device + deviceH;
  const direct = edges.filter(({a, b}) => at.get(a)?.kind === "gpu" && at.get(b)?.kind === "gpu");
  const longest = Math.max(0, ...direct.map(({a, b}) => Math.abs(at.get(a).x - at.get(b).x)));
  if (direct.length) y += 16 + 0.75 * (22 + (kDeepest - 22) * (longest / width));
  const gpus = devices.filter((its) => its.kind === "gpu").map((its) => at.get(its.name));
  for (const its of of("nvswitch")) {
    const from = Math.min(...gpus.map((gpu) => gpu.x)), to = Math.max(...gpus.map((gpu) => gpu.x + gpu.w));
    box(its, from, y + 46, to - from, 28, "NVSwitch");
    y += 74;
  }
  if (nics.length) {
    box({name: "fabric", kind: "fabric", number: 0}, 0, y + 46, width, 32, t(topology.nodes > 2 ? "topology.fabric" : "topology.fabric_one", {network: named("network", topology.network), nodes: f.grouped(topology.nodes - 1)}));
    y += 78;
  }
  return {at, height: y + 10};
}

function chart(width, topology) {
  const {edges, budgets} = joined(topology.links);
  const {at, height} = layout(width, topology, edges);
  const lines = [], boxes = [];
  const drawn = edges.filter(({a, b}) => at.has(a) && at.has(b));
  drawn.sort((p, q) => busiest(p.ways) - busiest(q.ways));
  for (const {a, b, ways} of drawn) {
    const load = busiest(ways);
    let [top, low] = [at.get(a), at.get(b)];
    if (top.y > low.y) [top, low] = [low, top];
    const x1 = top.x + top.w / 2, x2 = low.x + low.w / 2;
    const wide = (its) => its.kind === "nvswitch" || its.kind === "fabric";
    let d;
    if (top.y === low.y && top.kind === "gpu") {  // GPU to GPU: an arc below
      const deep = 22 + (kDeepest - 22) * (Math.abs(x2 - x1) / width);
      d = `M${x1} ${top.y + top.h}C${x1} ${top.y + top.h + deep} ${x2} ${top.y + top.h + deep} ${x2} ${top.y + top.h}`;
    } else if (top.y === low.y) {
      const [left, right] = x1 < x2 ? [top, low] : [low, top];
      d = `M${left.x + left.w} ${left.y + left.h / 2}H${right.x}`;
    } else if (wide(low)) {
      d = `M${x1} ${top.y + top.h}V${low.y}`;
    } else {
      const middle = (top.y + top.h + low.y) / 2;
      d = `M${x1} ${top.y + top.h}C${x1} ${middle} ${x2} ${middle} ${x2} ${low.y}`;
    }
    const tip = [named("link", ways[0].kind), ...ways.map(describe)];
    lines.push(path(d, {class: "mark link", stroke: ink(load), "stroke-width": thick(load), "data-load": load}), path(d, {class: "reach", tip}));
  }
  const own = (name) => budgets.filter((link) => link.from.startsWith(name.replace("socket", "dram")) || link.from.startsWith(`${name} `));
  for (const its of at.values()) {
    const its_budgets = own(its.name);
    const load = its_budgets.length ? busiest(its_budgets) : 0;
    const tip = [its.text.length > 3 ? its.text : `${its.kind} ${its.number}`, ...its_budgets.map(describe)];
    if (its.kind === "gpu") tip.splice(1, 0, topology.gpu);
    if (its.kind === "fabric") tip.push(...topology.links.filter((link) => link.kind === "fabric").map(describe));
    boxes.push(s("g", {tip},
      s("rect", {class: `place ${its.kind.replace(" ", "-")}`, x: its.x, y: its.y, width: its.w, height: its.h, rx: 5, style: load > 0.0005 ? `stroke:${ink(load)};stroke-width:${thick(load)}px` : null}),
      s("text", {class: "place-name", x: its.x + its.w / 2, y: its.y + its.h / 2 + 4, "text-anchor": "middle", style: its.w < textWidth(its.text, 12) + 4 ? "font-size:10px" : null}, its.text)));
  }
  // Links pass behind the boxes.
  return drawing(width, height, t("topology.title", {name: selected().name()}), lines, boxes);
}

export function topology() {
  const {view, viewPath, name} = selected();
  if (!view) return null;
  const its = view.topology, base = `${viewPath}/topology/links`;
  const scale = h("div", {class: "load-scale", "aria-hidden": "true"}, [0, 0.05, 0.25, 0.5, 1].map((load) =>
    h("span", {}, h("i", {style: `background:${ink(load)};height:${thick(load)}px`}), f.percent(load, 0))));
  const node = its.node ? ` (${its.node})` : "";
  const text = its.nodes > 1 ? `${t("topology.note", {gpus: its.gpus_per_node, gpu: its.gpu, node, nodes: f.grouped(its.nodes)})} ${t(its.nodes_alike ? "topology.alike" : "topology.unlike")}` : t("topology.note_one", {gpus: its.gpus_per_node, gpu: its.gpu, node});
  return section("machine", t("topology.title", {name: name()}),
    h("div", {class: "scale-row"}, h("span", {}, t("topology.scale")), scale),
    picture((width) => chart(width, its)),
    note(text, its.gpus_per_node > kMostGpus ? ` ${t("topology.cut", {shown: kMostGpus, all: its.gpus_per_node})}` : "", " ", t("topology.load")),
    numbers(["from", "to", "kind", "rate", "datasheet", "traffic", "load"].map((head) => t(`column.${head}`)), its.links.map((link, index) => [
      cell(`${base}/${index}/from`), cell(`${base}/${index}/to`), named("link", link.kind), cell(`${base}/${index}/bytes_per_s`, f.rate),
      cell(`${base}/${index}/datasheet_bytes_per_s`, f.rate), cell(`${base}/${index}/bytes_per_step`, f.bytes), cell(`${base}/${index}/load`, f.percent)])));
}
