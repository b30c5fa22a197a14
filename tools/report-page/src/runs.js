// The simulated runs that a page shows, whatever the command: the cases of `run`, the plans of `plan`, the sizes of `scale`.
// Each knows its place in the JSON (`path`), and those that are compared with each other are of one `group`.
import {answer, kind, state, t} from "./state.js";

const kChosen = ["tp", "pp", "dp", "cp", "ep", "etp", "schedule", "sequence_parallel", "zero", "recompute", "micro_batch", "offload", "order"];
const chunked = (plan) => ({...plan, pp: plan.vpp > 1 ? `${plan.pp}×${plan.vpp}` : plan.pp});
const write = {
  pp: (value, plan) => (plan.pp === 1 ? "" : `PP ${value}`),
  schedule: (value, plan) => (plan.pp === 1 ? "" : value),
  sequence_parallel: (value) => (value ? "SP" : ""),
  zero: (value) => (value > 0 ? `ZeRO ${value}` : ""),
  recompute: (value) => (value === "none" ? "" : t("runs.recompute", {what: typeof value === "string" ? value : Object.values(value).flat().join("+")})),
  micro_batch: (value) => t("runs.micro_batch", {size: value}),
  offload: (value) => (value ? t("runs.offload") : ""),
  order: (value) => value.join("-"),
};
const written = (plan, key) => (write[key] ? write[key](plan[key], plan) : plan[key] > 1 ? `${key.toUpperCase()} ${plan[key]}` : "");

// A plan by what tells it from its rivals.
function distinct(all) {
  const plans = all.map(chunked);
  const differs = kChosen.filter((key) => new Set(plans.map((plan) => JSON.stringify(plan[key] ?? null))).size > 1);
  return (plan) => differs.map((key) => written(chunked(plan), key)).filter(Boolean).join(" · ");
}

const lists = {
  run: () => answer.cases.map((one, index) => ({one, path: `cases/${index}`, group: 0, name: () => one.name})),
  plan: () => answer.cases.flatMap(({plans}, group) => plans.map((one, index) => ({one, path: `cases/${group}/plans/${index}`, group, rank: index + 1,
    name: () => `${index + 1}  ${distinct(plans.map((its) => its.plan))(one.plan)}`.trim()}))),
  scale: () => answer.cases.flatMap(({points}, group) => points.map(({report: one, gpus}, index) => ({one, path: `cases/${group}/points/${index}/report`, group,
    name: () => t("scaling.gpus", {gpus: gpus.toLocaleString("en")})}))),
};

// Runs and what their pictures need stand in the same order; a size without a plan has neither.
export const runs = (lists[kind]?.() ?? []).map((run, index) => ({...run, view: answer.view.cases[index], viewPath: `view/cases/${index}`})).filter(({one}) => one);
export const groups = kind === "run" ? [{name: ""}] : answer.cases ?? [];

const winner = kind === "run" ? answer.cases.findIndex((one) => one.name === answer.verdict.winner) : 0;
state.run = Math.max(0, winner);

export const selected = () => runs[state.run];
export const rivals = () => runs.filter((run) => run.group === selected().group);
export const isBest = (run) => (kind === "run" ? run.one.name === answer.verdict.winner : kind === "plan" && run.rank === 1);
