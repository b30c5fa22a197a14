// The cases side by side.
import {bars} from "../bars.js";
import {plain} from "../colours.js";
import * as f from "../format.js";
import {choice, note, picture, section} from "../plot.js";
import {isBest, rivals} from "../runs.js";
import {state, t} from "../state.js";
import {at, cell, numbers} from "../table.js";

const metrics = {
  step_time: {path: "step_time_s", format: (value) => f.seconds(value)},
  tokens: {path: "tokens_per_s", format: (value) => `${f.grouped(value)} /s`},
  tokens_per_gpu: {path: "tokens_per_s_per_gpu", format: (value) => `${f.grouped(value)} /s`},
  mfu: {path: "mfu", format: (value) => f.percent(value)},
  hours: {path: "cost/hours", format: f.hours},
  cost: {path: "cost/amount", format: (value, run) => f.money(value, run?.one.cost.currency ?? "")},
};

const value = (metric, run) => at(`${run.path}/${metrics[metric].path}`);

// Step times compare only plans with as many tokens a step.
const sameWork = () => {
  const tokens = rivals().map(({one}) => one.step_time_s * one.tokens_per_s);
  return tokens.every((work) => Math.abs(work / tokens[0] - 1) < 1e-6);
};

// The range of step times, as a range of the metric where that follows from the step time alone.
function range(metric, one) {
  const bounds = one.step_time_range_s;
  if (!bounds) return undefined;
  if (metric === "step_time") return bounds;
  if (metric === "mfu" || metric === "tokens" || metric === "tokens_per_gpu") {
    return bounds.map((bound) => (one[metrics[metric].path] * one.step_time_s) / bound).reverse();
  }
  return undefined;
}

export function compare(redraw) {
  const shown = Object.keys(metrics).filter((metric) => rivals().some((run) => typeof value(metric, run) === "number"));
  if (!shown.includes(state.metric)) state.metric = sameWork() ? "step_time" : "tokens";
  const metric = state.metric, {path, format} = metrics[metric];
  const rows = rivals().map((run) => {
    const {one} = run, name = run.name(), size = value(metric, run);
    const bounds = size === null ? undefined : range(metric, one);
    const text = size === null || size === undefined ? "–" : format(size, run);
    const lines = [name, `${t(`metric.${metric}`)}: ${text}`];
    if (bounds) lines.push(`${t("ui.nine_in_ten")}: ${format(bounds[0], run)} – ${format(bounds[1], run)}`);
    if (!one.fits) lines.push(t("ui.does_not_fit"));
    return {
      name,
      strong: isBest(run),
      text: one.fits ? text : `${text} · ${t("ui.does_not_fit")}`,
      parts: [{from: 0, to: size ?? 0, colour: one.fits ? plain(isBest(run) ? "blue" : "sky") : plain("idle"),
        hatched: !one.fits, tip: lines, path: `${run.path}/${path}`}],
      range: bounds,
      rangeTip: lines,
    };
  });
  const heads = ["case", "fits", "step_time", "low", "high", "tokens", "tokens_per_gpu", "mfu", "hfu", "memory", "capacity", "hours", "cost", "scaling"];
  const table = rivals().map((run) => {
    const of = (key, write) => cell(`${run.path}/${key}`, write);
    return [run.name(), of("fits", (fits) => t(fits ? "ui.yes" : "ui.no")), of("step_time_s", f.seconds), of("step_time_range_s/0", f.seconds),
      of("step_time_range_s/1", f.seconds), of("tokens_per_s", f.grouped), of("tokens_per_s_per_gpu", f.grouped), of("mfu", f.percent), of("hfu", f.percent),
      of("memory/gpu_peak_bytes", f.gib), of("memory/gpu_capacity_bytes", f.gib), of("cost/hours", f.hours),
      of("cost/amount", (amount) => metrics.cost.format(amount, run)), of("scaling_efficiency", f.percent)];
  });
  return section("compare", t("compare.title"),
    choice("metric", t("compare.metric"), shown.map((key) => [key, t(`metric.${key}`)]), metric, (key) => {
      state.metric = key;
      redraw("compare");
    }),
    picture((width) => bars(width, rows, {label: t("compare.label", {metric: t(`metric.${metric}`)}), format: (tick) => format(tick)})),
    note(t("compare.note")),
    numbers(heads.map((head) => t(`column.${head}`)), table));
}
