// One row a pipeline stage: what its GPU does when. Drawn on a canvas, to be zoomed and moved.
import {scaleLinear} from "d3-scale";
import {select} from "d3-selection";
import {zoom, zoomIdentity} from "d3-zoom";
import {activityColour, isHatched, resolved} from "../colours.js";
import {h, kFont} from "../dom.js";
import * as f from "../format.js";
import {legend, note, picture, section} from "../plot.js";
import {hideTip, showTip} from "../tip.js";
import {selected} from "../runs.js";
import {named, t} from "../state.js";
import {cell, numbers} from "../table.js";

const kAxis = 22, kBesides = 5;

// [activity, begin, length, micro-batch, chunk] in ticks, as numbers a drawing needs.
function decoded(pipeline) {
  const tick = pipeline.tick_ps * 1e-12;
  const slice = ([activity, begin, length, microBatch, chunk]) => ({
    activity: pipeline.activities[activity], begin: begin * tick, end: (begin + length) * tick, microBatch, chunk: chunk ?? 0});
  return pipeline.stages.map((stage) => ({...stage, compute: stage.compute.map(slice), beside: stage.beside.map(slice)}));
}

function describe(slice, stage) {
  const left = slice.activity === "left_out";
  const lines = [left ? t("pipeline.left_out", {count: slice.microBatch}) : named("activity", slice.activity)];
  if (!left && slice.microBatch >= 0) lines.push(`${t("pipeline.micro_batch", {number: slice.microBatch})}${stage.chunked ? ` · ${t("pipeline.chunk", {number: slice.chunk})}` : ""}`);
  lines.push(`${t("ui.stage", {stage: stage.stage})} · ${f.seconds(slice.end - slice.begin)}`, t("pipeline.from_to", {from: f.seconds(slice.begin, 5), to: f.seconds(slice.end, 5)}));
  return lines;
}

// The slice at a time, of slices in order.
function sliceAt(slices, time) {
  let low = 0, high = slices.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices[middle].end < time) low = middle + 1;
    else high = middle;
  }
  return slices[low] && slices[low].begin <= time ? slices[low] : null;
}

function chart(width, pipeline, label) {
  const stages = decoded(pipeline);
  for (const stage of stages) stage.chunked = stage.compute.some((slice) => slice.chunk > 0);
  const besides = stages.some((stage) => stage.beside.length > 0);
  const names = width < 620 ? 30 : 74;
  const bar = stages.length > 20 ? 12 : stages.length > 8 ? 17 : 26;
  const row = bar + (besides ? kBesides + 3 : 0) + 4;
  const height = kAxis + stages.length * row + 4;
  const dpr = Math.min(3, window.devicePixelRatio || 1);
  const canvas = h("canvas", {class: "gantt", width: Math.round(width * dpr), height: Math.round(height * dpr), tabindex: 0, role: "img", "aria-label": label,
    style: `width:${width}px;height:${height}px`});
  canvas.dataset.marks = stages.reduce((sum, stage) => sum + stage.compute.length + stage.beside.length, 0);
  const brush = canvas.getContext("2d");
  const base = scaleLinear([0, pipeline.end_s], [names, width - 6]);
  let transform = zoomIdentity, hovered = null, asked = false;
  const colours = Object.fromEntries(pipeline.activities.map((name) => [name, resolved(activityColour(name))]));
  const ink = resolved("var(--text)"), faint = resolved("var(--faint)"), ground = resolved("var(--ground)"), line = resolved("var(--line)"), onMark = resolved("var(--on-mark)");

  function drawSlices(slices, y, tall, x) {
    for (const slice of slices) {
      const from = Math.max(x(slice.begin), names), to = Math.min(x(slice.end), width - 6);
      if (to <= names || from >= width - 6) continue;
      const wide = to - from;
      const same = hovered && hovered.microBatch >= 0 && hovered.microBatch === slice.microBatch && slice.activity !== "left_out";
      brush.globalAlpha = hovered && hovered.microBatch >= 0 && !same ? 0.45 : 1;
      brush.fillStyle = colours[slice.activity];
      brush.fillRect(from, y, Math.max(0.4, wide > 4 ? wide - 1 : wide), tall);
      if (isHatched(slice.activity) && wide > 8) {
        brush.save();
        brush.beginPath();
        brush.rect(from, y, wide, tall);
        brush.clip();
        brush.strokeStyle = ground;
        brush.lineWidth = 1.5;
        for (let at = from - tall; at < to; at += 7) {
          brush.beginPath();
          brush.moveTo(at, y + tall);
          brush.lineTo(at + tall, y);
          brush.stroke();
        }
        brush.restore();
      }
      if (tall >= 12 && wide >= 18 && slice.microBatch >= 0 && slice.activity !== "left_out") {
        brush.fillStyle = onMark;
        brush.fillText(String(slice.microBatch), from + wide / 2, y + tall / 2 + 0.5);
      }
    }
    brush.globalAlpha = 1;
  }

  function draw() {
    asked = false;
    const x = transform.rescaleX(base);
    brush.setTransform(dpr, 0, 0, dpr, 0, 0);
    brush.clearRect(0, 0, width, height);
    brush.font = `11px ${kFont}`;
    brush.textBaseline = "middle";
    const ticks = x.ticks(Math.max(3, Math.floor((width - names) / 110)));
    brush.textAlign = "center";
    for (const tick of ticks) {
      const at = x(tick);
      if (at < names || at > width - 6) continue;
      brush.fillStyle = line;
      brush.fillRect(Math.round(at), kAxis - 4, 1, height - kAxis);
      brush.fillStyle = faint;
      const text = f.round(f.seconds)(tick);
      const half = brush.measureText(text).width / 2;
      brush.fillText(text, Math.min(Math.max(at, names + half), width - half), 8);
    }
    stages.forEach((stage, index) => {
      const y = kAxis + index * row;
      brush.textAlign = "left";
      brush.fillStyle = ink;
      brush.fillText(names < 40 ? String(stage.stage) : t("ui.stage", {stage: stage.stage}), 2, y + bar / 2 + 0.5);
      brush.textAlign = "center";
      brush.fillStyle = line;
      brush.fillRect(names, y, width - 6 - names, bar);
      brush.fillStyle = ground;
      brush.fillRect(names, y + 0.5, width - 6 - names, bar - 1);
      drawSlices(stage.compute, y, bar, x);
      drawSlices(stage.beside, y + bar + 2, kBesides, x);
    });
  }
  const redraw = () => {
    if (!asked) requestAnimationFrame(draw);
    asked = true;
  };

  const behaviour = zoom().scaleExtent([1, 20000]).extent([[names, 0], [width - 6, height]]).translateExtent([[names, 0], [width - 6, height]])
    // The wheel alone scrolls the page; with a modifier it zooms, like in maps.
    .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey || event.shiftKey : event.type !== "dblclick" || event.detail === 2))
    .on("zoom", (event) => {
      transform = event.transform;
      redraw();
    });
  const target = select(canvas).call(behaviour).on("dblclick.zoom", null);
  const middle = [(names + width) / 2, height / 2];
  const act = {
    in: () => behaviour.scaleBy(target, 2, middle),
    out: () => behaviour.scaleBy(target, 0.5, middle),
    left: () => behaviour.translateBy(target, (width / 5) / transform.k, 0),
    right: () => behaviour.translateBy(target, -(width / 5) / transform.k, 0),
    all: () => behaviour.transform(target, zoomIdentity),
  };
  canvas.addEventListener("dblclick", () => act.all());
  canvas.addEventListener("keydown", (event) => {
    const does = {"+": act.in, "=": act.in, "-": act.out, ArrowLeft: act.left, ArrowRight: act.right, 0: act.all, Home: act.all}[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  });
  canvas.addEventListener("pointermove", (event) => {
    const place = canvas.getBoundingClientRect();
    const time = transform.rescaleX(base).invert(event.clientX - place.left);
    const below = event.clientY - place.top - kAxis;
    const stage = event.clientX - place.left >= names ? stages[Math.floor(below / row)] : undefined;
    const beside = below % row > bar;
    const slice = stage ? sliceAt(beside ? stage.beside : stage.compute, time) : null;
    if (slice !== hovered) {
      hovered = slice;
      redraw();
    }
    if (slice) showTip(describe(slice, stage), event.clientX, event.clientY);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    hideTip();
    redraw();
  });
  draw();
  const button = (does, text, name) => h("button", {type: "button", class: "tool", "aria-label": name, title: name, onclick: does}, text);
  return h("div", {}, h("div", {class: "tools"}, button(act.in, "+", t("pipeline.zoom_in")), button(act.out, "−", t("pipeline.zoom_out")),
    button(act.left, "←", t("pipeline.earlier")), button(act.right, "→", t("pipeline.later")), button(act.all, t("pipeline.all"), t("pipeline.all"))), canvas);
}

export function pipeline() {
  const {one, name, view, viewPath} = selected();
  if (!view) return null;
  const its = view.pipeline;
  const seen = its.activities.filter((_, index) => its.stages.some((stage) => [...stage.compute, ...stage.beside].some((slice) => slice[0] === index)));
  const shownTime = its.activities.filter((activity) => its.stages.some((stage) => stage.time_s[activity] !== undefined));
  const path = `${viewPath}/pipeline/stages`;
  const rows = its.stages.map((_, index) => [cell(`${path}/${index}/stage`), cell(`${path}/${index}/gpus`, f.grouped), cell(`${path}/${index}/passes`, f.grouped),
    ...shownTime.map((activity) => cell(`${path}/${index}/time_s/${activity}`, f.seconds)), cell(`${path}/${index}/idle_s`, f.seconds)]);
  const left = seen.includes("left_out");
  return section("pipeline", t("pipeline.title", {name: name()}),
    legend(seen.map((activity, order) => ({name: named("activity", activity), colour: activityColour(activity, order), hatched: isHatched(activity)}))),
    picture((width) => chart(width, its, t("pipeline.label", {name: name()}))),
    note(its.all_stages > 1 ? t("pipeline.shown", {shown: its.stages.length, all: its.all_stages, gpus: f.grouped(one.total_ranks)}) : t("pipeline.shown_one", {gpus: f.grouped(one.total_ranks)}), " ", t("pipeline.note"), left ? ` ${t("pipeline.thinned")}` : "", " ", t("pipeline.keys")),
    numbers([t("column.stage"), t("column.gpus"), t("column.passes"), ...shownTime.map((activity) => named("activity", activity)), t("column.idle")], rows));
}
