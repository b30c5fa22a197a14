// The plans that were found: time against memory, and what each spends more on than the best.
import {bars} from "../bars.js";
import {causeColour, plain} from "../colours.js";
import {h} from "../dom.js";
import * as f from "../format.js";
import {legend, note, picture, section} from "../plot.js";
import {groups, rivals, runs, selected} from "../runs.js";
import {answer, named, t} from "../state.js";
import {cell, numbers, table} from "../table.js";
import {xy} from "../xy.js";

const kGiB = 2 ** 30;
const kColours = ["blue", "orange", "green", "purple", "brown", "vermillion"];
const kMostBehind = 12;

// Of every question its plans, and the one that would be faster if it fitted.
function scatter(width) {
  const series = groups.map((question, group) => {
    const its = runs.filter((run) => run.group === group), colour = plain(kColours[group % kColours.length]);
    const points = its.map(({one, path, rank, name}) => ({x: one.step_time_s, y: one.memory.gpu_peak_bytes / kGiB, name: rank <= 3 ? String(rank) : "", strong: rank === 1, path: `${path}/step_time_s`,
      tip: [groups.length > 1 ? `${question.name}: ${name()}` : name(), `${f.seconds(one.step_time_s)} · ${f.gib(one.memory.gpu_peak_bytes)}`]}));
    const near = question.nearest_infeasible, capacity = its[0]?.one.memory.gpu_capacity_bytes;
    if (near && capacity) {
      points.push({x: near.step_time_s, y: (capacity + near.missing_bytes) / kGiB, hollow: true, path: `cases/${group}/nearest_infeasible/step_time_s`,
        tip: [t("plans.nearest", {name: question.name}), f.seconds(near.step_time_s), t("plans.missing", {bytes: f.gib(near.missing_bytes)})]});
    }
    return {colour, points};
  });
  const capacities = new Set(runs.map(({one}) => one.memory.gpu_capacity_bytes));
  const limit = capacities.size === 1 ? {at: [...capacities][0] / kGiB, name: t("memory.capacity")} : undefined;
  return xy(width, series, {label: t("plans.scatter"), x: {title: t("metric.step_time"), format: f.round(f.seconds), near: true}, y: {title: "GiB", format: (value) => f.round((gib) => f.significant(gib, 3))(value), near: true, limit}});
}

const more = (one) => t("plans.more", {cause: named("cause", one.slower_by), time: f.seconds(one.slower_by_s, 3)});

// What a plan takes longer than the best one, with the part that grew most.
function behind(width) {
  const [best, ...others] = rivals().slice(0, kMostBehind);
  return bars(width, others.map((run) => ({
    name: run.name(), strong: run === selected(),
    text: [`+${f.seconds(run.one.step_time_s - best.one.step_time_s, 3)}`, run.one.slower_by && (width < 620 ? named("cause", run.one.slower_by) : more(run.one))].filter(Boolean).join(" · "),
    parts: [{from: 0, to: run.one.step_time_s - best.one.step_time_s, colour: run.one.slower_by ? causeColour(run.one.slower_by) : plain("grey"),
      tip: [run.name(), run.one.slower_by ? more(run.one) : "", `+${f.percent(run.one.step_time_s / best.one.step_time_s - 1, 2)}`]}],
  })), {label: t("plans.behind"), format: f.seconds});
}

export function plans() {
  const heads = ["plan", "step_time", "tokens", "mfu", "memory", "capacity", "slower_by", "slower_by_s", "order"].map((head) => t(`column.${head}`));
  const rows = runs.map(({name, path, group}) => {
    const of = (key, write) => cell(`${path}/${key}`, write);
    return [groups.length > 1 ? `${groups[group].name}: ${name()}` : name(), of("step_time_s", f.seconds), of("tokens_per_s", f.grouped), of("mfu", f.percent), of("memory/gpu_peak_bytes", f.gib), of("memory/gpu_capacity_bytes", f.gib),
      of("slower_by", (cause) => named("cause", cause)), of("slower_by_s", f.seconds), of("order_likelihood", (share) => f.percent(share, 0))];
  });
  const counts = ["plans", "beyond_memory", "too_slow", "simulated", "did_not_fit"];
  return section("plans", t("plans.title"),
    groups.length > 1 && legend(groups.map(({name}, group) => ({name, colour: plain(kColours[group % kColours.length])}))),
    runs.length > 0 && picture(scatter), runs.length > 0 && note(t("plans.note"), answer.cases.some((one) => one.nearest_infeasible) ? ` ${t("plans.hollow")}` : ""),
    runs.length > 0 && rivals().length > 1 && [h("h3", {}, groups.length > 1 ? t("plans.behind_of", {name: groups[selected().group].name}) : t("plans.behind")), picture(behind)],
    rows.length > 0 && numbers(heads, rows),
    h("h3", {}, t("plans.space")),
    table([t("column.case"), ...counts.map((key) => t(`plans.${key}`))], answer.cases.map((question, index) => [question.name, ...counts.map((key) => cell(`cases/${index}/space/${key}`, f.grouped))])));
}
