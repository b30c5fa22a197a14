// Machines for a job: hours against money, what the hours go to, what the machines are, and what was left out.
import {bars} from "../bars.js";
import {plain} from "../colours.js";
import {h} from "../dom.js";
import * as f from "../format.js";
import {legend, note, picture, section} from "../plot.js";
import {answer, named, said, t} from "../state.js";
import {cell, numbers, table} from "../table.js";
import {xy} from "../xy.js";

const kHours = {training: "blue", setup: "grey", transfer: "brown", checkpoints: "green", interruptions: "vermillion"};
const kMostBars = 20;

const machine = (index) => said(answer.view.machines[index]);
const short = (one) => `${one.machines > 1 ? `${one.machines} × ` : ""}${one.offer.name.split("/").pop()}`;
const price = (value) => f.money(value, answer.currency);
const wide = (values) => Math.max(...values) / Math.min(...values) > 12;

function front(width, known) {
  const point = ({one, index}) => ({
    x: one.hours, y: one.money, name: one.pareto || known.length <= 12 ? short(one) : "", strong: index === answer.best, hollow: !(one.in_time && one.in_budget), path: `candidates/${index}/money`,
    ranges: {x: one.hours_range, y: one.money_range},
    tip: [machine(index), `${f.hours(one.hours)} (${f.hours(one.hours_range[0])} – ${f.hours(one.hours_range[1])})`, `${price(one.money)} (${price(one.money_range[0])} – ${price(one.money_range[1])})`,
      index === answer.best ? t("rent.best") : one.pareto ? t("money.best") : t("rent.beaten"), ...(one.in_time ? [] : [t("rent.late")]), ...(one.in_budget ? [] : [t("rent.dear")])],
  });
  const best = known.filter(({one}) => one.pareto).map(point).sort((a, b) => a.x - b.x), others = known.filter(({one}) => !one.pareto).map(point);
  const format = (value) => (value < 10 ? f.round((one) => f.significant(one, 2))(value) : f.grouped(value));
  const axis = (title, key, limit, name) => ({title, format, log: wide(known.flatMap(({one}) => one[`${key}_range`]).concat(limit ?? [])), near: true, limit: limit ? {at: limit, name} : undefined});
  return xy(width, [{colour: "var(--c-idle)", points: others}, {colour: "var(--c-blue)", points: best, line: true}], {label: t("rent.title"),
    x: axis(t("money.hours"), "hours", answer.deadline_h, t("rent.deadline")), y: axis(answer.currency, "money", answer.budget, t("rent.budget"))});
}

function hours(known) {
  const parts = Object.keys(kHours).filter((part) => known.some(({one}) => one.hours_of[part] > 0));
  const rows = known.slice(0, kMostBars).map(({one, index}) => {
    let sum = 0;
    return {name: short(one), strong: index === answer.best, text: `${f.hours(one.hours)} · ${price(one.money)}`, parts: parts.map((part) => {
      const from = sum;
      sum += one.hours_of[part];
      return {from, to: sum, colour: plain(kHours[part]), path: `candidates/${index}/hours_of/${part}`, tip: [machine(index), `${named("hours", part)}: ${f.hours(one.hours_of[part])}`]};
    })};
  });
  return [h("h3", {}, t("rent.hours")), legend(parts.map((part) => ({name: named("hours", part), colour: plain(kHours[part])}))),
    picture((width) => bars(width, rows, {label: t("rent.hours"), format: (value) => f.hours(value)}))];
}

const planText = (plan) => ["tp", "pp", "dp", "cp", "ep"].filter((key) => plan[key] > 1).map((key) => `${key.toUpperCase()} ${plan[key]}`).concat(`ZeRO ${plan.zero}`, t("runs.micro_batch", {size: plan.micro_batch})).join(" · ");

function bought() {
  if (answer.bought.length === 0) return null;
  const row = (one, index) => {
    const of = (key, write) => cell(`bought/${index}/${key}`, write);
    const months = (value) => f.significant(value, 3);
    return [of("purchase"), machine(one.candidate), of("cost/0", price), of("cost/1", price), of("own_per_month", price), of("rent_per_month/0", price), of("rent_per_month/1", price), of("months/0", months), of("months/1", months), of("jobs", (value) => f.grouped(value))];
  };
  return section("bought", t("rent.buy"), note(t("rent.buy_note")),
    table(["purchase", "machine", "low", "high", "own", "rent_low", "rent_high", "months_low", "months_high", "jobs"].map((head) => t(`column.${head}`)), answer.bought.map(row)));
}

function leftOut() {
  const gone = answer.candidates.map((one, index) => ({one, index})).filter(({one}) => !one.fits);
  if (gone.length === 0) return null;
  return section("left-out", t("rent.left_out"), table(["machine", "why"].map((head) => t(`column.${head}`)), gone.map(({index}) => [machine(index), cell(`candidates/${index}/why_not`, said)])));
}

function machines() {
  const known = answer.candidates.map((one, index) => ({one, index})).filter(({one}) => one.fits);
  if (known.length === 0) return null;
  const heads = ["machine", "gpus", "gpu", "hours", "low", "high", "cost", "low", "high", "per_billion", "busy", "step_time", "plan", "per", "status", "date"];
  const rows = known.map(({one, index}) => {
    const of = (key, write) => cell(`candidates/${index}/${key}`, write);
    return [machine(index), of("gpus", f.grouped), of("gpu"), of("hours", f.hours), of("hours_range/0", f.hours), of("hours_range/1", f.hours), of("money", price), of("money_range/0", price), of("money_range/1", price),
      of("money_per_billion_tokens", price), of("busy_per_billion_tokens", price), of("step_time_s", f.seconds), planText(one.plan), of("offer/price/per", (per) => named("per", per)), of("offer/status", (status) => named("status", status)), of("offer/date")];
  });
  return section("rent", t("rent.title"), picture((width) => front(width, known)), note(t("rent.note")), hours(known), known.length > kMostBars && note(t("rent.shown", {shown: kMostBars, all: known.length})),
    numbers(heads.map((head) => t(`column.${head}`)), rows));
}

export const rent = [machines, bought, leftOut];
