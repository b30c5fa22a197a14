// What must fit on a GPU, against what it has: the fullest GPU of every case, and each stage of the chosen one.
import {bars} from "../bars.js";
import {h} from "../dom.js";
import {memoryColour} from "../colours.js";
import * as f from "../format.js";
import {legend, note, picture, section} from "../plot.js";
import {rivals, selected} from "../runs.js";
import {named, t} from "../state.js";
import {cell, numbers} from "../table.js";

const kGiB = 2 ** 30;
const parts = () => {
  const names = [];
  for (const {one} of rivals()) {
    for (const stage of one.stages) {
      for (const [name, bytes] of Object.entries(stage.parts)) if (bytes >= 0.05 * kGiB && !names.includes(name)) names.push(name);
    }
  }
  return Object.keys(selected().one.stages[0]?.parts ?? {}).filter((name) => names.includes(name));
};

function row(name, holder, path, one, strong) {
  const capacity = one.memory.gpu_capacity_bytes, peak = holder.gpu_peak_bytes;
  let sum = 0;
  return {
    name, strong,
    text: `${f.gib(peak)} · ${f.percent(peak / capacity, 0)}`,
    limit: {at: capacity / kGiB, tip: [t("memory.capacity"), f.gib(capacity), one.cluster.gpu]},
    parts: parts().map((part, order) => {
      const from = sum;
      sum += holder.parts[part];
      return {from: from / kGiB, to: sum / kGiB, colour: memoryColour(part, order), path: `${path}/parts/${part}`,
        tip: [named("memory_part", part), `${f.gib(holder.parts[part])} · ${t("memory.of_capacity", {share: f.percent(holder.parts[part] / capacity)})}`, name]};
    }),
  };
}

// Of cases that offload: what the fullest host holds.
const offloading = () => rivals().filter(({one}) => one.memory.host_parts);
const hostParts = () => Object.keys(offloading()[0].one.memory.host_parts).filter((part) => offloading().some(({one}) => one.memory.host_parts[part] >= 0.05 * kGiB));

function hostRow({one, name, path}) {
  const {host_peak_bytes: peak, host_capacity_bytes: capacity, host_parts: held} = one.memory;
  let sum = 0;
  return {
    name: name(),
    text: capacity ? `${f.gib(peak)} · ${f.percent(peak / capacity, 0)}` : f.gib(peak),
    limit: capacity ? {at: capacity / kGiB, tip: [t("memory.host_capacity"), f.gib(capacity)]} : undefined,
    parts: hostParts().map((part, order) => {
      const from = sum;
      sum += held[part];
      return {from: from / kGiB, to: sum / kGiB, colour: memoryColour(part, order), path: `${path}/memory/host_parts/${part}`, tip: [named("host_part", part), f.gib(held[part]), name()]};
    }),
  };
}

function hosts(format) {
  if (offloading().length === 0) return null;
  const names = hostParts();
  return [h("h3", {}, t("memory.host")),
    legend(names.map((name, order) => ({name: named("host_part", name), colour: memoryColour(name, order)}))),
    picture((width) => bars(width, offloading().map(hostRow), {label: t("memory.host"), format})),
    numbers([t("column.case"), t("column.must_fit"), t("column.capacity"), ...names.map((name) => named("host_part", name)), t("column.nvme")], offloading().map(({name, path}) => {
      const of = (key) => cell(`${path}/memory/${key}`, f.gib);
      return [name(), of("host_peak_bytes"), of("host_capacity_bytes"), ...names.map((name) => of(`host_parts/${name}`)), of("nvme_bytes")];
    }))];
}

export function memory() {
  const run = selected(), {one} = run, several = rivals().length > 1;
  const stageName = (stage) => t("ui.stage", {stage: stage.stage});
  const format = (gib) => `${f.grouped(gib)} GiB`;
  const names = parts();
  const heads = [t("column.case"), t("column.stage"), t("column.must_fit"), t("column.capacity"), ...names.map((name) => named("memory_part", name)),
    t("column.allocated"), t("column.reserved"), t("column.device")];
  const rows = rivals().flatMap(({one: its, name, path}) => its.stages.map((_, s) => {
    const of = (key) => cell(`${path}/stages/${s}/${key}`, f.gib);
    return [name(), cell(`${path}/stages/${s}/stage`), of("gpu_peak_bytes"), cell(`${path}/memory/gpu_capacity_bytes`, f.gib),
      ...names.map((name) => of(`parts/${name}`)), of("allocated_bytes"), of("reserved_bytes"), of("device_bytes")];
  }));
  return section("memory", t("memory.title"),
    legend(names.map((name, order) => ({name: named("memory_part", name), colour: memoryColour(name, order)}))),
    (several || one.stages.length === 1) && picture((width) => bars(width, rivals().filter(({one: its}) => its.memory.gpu_peak_bytes !== null).map((its) =>
      row(its.name(), its.one.memory, `${its.path}/memory`, its.one, several && its === run)), {label: t("memory.label"), format})),
    one.stages.length > 1 && several && h("h3", {}, t("memory.stages", {name: run.name()})),
    one.stages.length > 1 && picture((width) => bars(width, one.stages.map((stage, index) =>
      row(stageName(stage), stage, `${run.path}/stages/${index}`, one, false)), {label: t("memory.stages", {name: run.name()}), format})),
    note(t("memory.note")),
    numbers(heads, rows),
    hosts(format));
}
