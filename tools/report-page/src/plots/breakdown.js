// Where the time goes: every case as one stacked bar, and the chosen one as a waterfall.
import {bars} from "../bars.js";
import {causeColour, isHatched} from "../colours.js";
import * as f from "../format.js";
import {h} from "../dom.js";
import {choice, legend, note, picture, section} from "../plot.js";
import {rivals, selected} from "../runs.js";
import {named, state, t} from "../state.js";
import {cell, numbers} from "../table.js";

// Causes that are at least half a per mille of some step.
const causes = () => Object.keys(selected().one.breakdown_s).filter((cause) =>
  rivals().some(({one}) => one.breakdown_s[cause] >= 0.0005 * one.step_time_s));

const tipOf = ({one, name}, cause) => [named("cause", cause),
  `${f.seconds(one.breakdown_s[cause])} · ${f.percent(one.breakdown_s[cause] / one.step_time_s)}`, name()];

function stacked(run) {
  const {one, name, path} = run;
  const scale = state.shares ? one.step_time_s : 1;
  let sum = 0;
  const parts = causes().map((cause, order) => {
    const from = sum;
    sum += one.breakdown_s[cause] / scale;
    return {from, to: sum, colour: causeColour(cause, order), hatched: isHatched(cause), tip: tipOf(run, cause), path: `${path}/breakdown_s/${cause}`};
  });
  return {name: name(), strong: rivals().length > 1 && run === selected(), text: f.seconds(one.step_time_s), parts};
}

function cascade(run) {
  const {one, path} = run;
  let sum = 0;
  return causes().filter((cause) => one.breakdown_s[cause] > 0).map((cause, order) => {
    const from = sum;
    sum += one.breakdown_s[cause];
    return {
      name: named("cause", cause),
      text: `${f.seconds(one.breakdown_s[cause], 3)} · ${f.percent(one.breakdown_s[cause] / one.step_time_s)}`,
      parts: [{from, to: sum, colour: causeColour(cause, order), hatched: isHatched(cause), tip: tipOf(run, cause), path: `${path}/breakdown_s/${cause}`}],
    };
  });
}

export function breakdown(redraw) {
  const heads = [t("column.case"), t("column.step_time"), ...causes().map((cause) => named("cause", cause))];
  const run = selected(), several = rivals().length > 1;
  const rows = rivals().map(({name, path}) => [name(), cell(`${path}/step_time_s`, f.seconds), ...causes().map((cause) => cell(`${path}/breakdown_s/${cause}`, f.seconds))]);
  return section("time", t("time.title"),
    several && choice("shares", t("time.unit"), [["seconds", t("time.seconds")], ["shares", t("time.shares")]], state.shares ? "shares" : "seconds", (key) => {
      state.shares = key === "shares";
      redraw("time");
    }),
    several && legend(causes().map((cause, order) => ({name: named("cause", cause), colour: causeColour(cause, order), hatched: isHatched(cause)}))),
    several && picture((width) => bars(width, rivals().map(stacked), {
      label: t("time.label"), format: state.shares ? (share) => f.percent(share, 0) : f.seconds, max: state.shares ? 1 : undefined})),
    several && h("h3", {}, t("time.waterfall", {name: run.name()})),
    picture((width) => bars(width, cascade(run), {label: t("time.waterfall", {name: run.name()}), format: f.seconds})),
    note(t("time.note")),
    numbers(heads, rows));
}

// What a slightly faster piece of hardware would buy.
export function elasticity() {
  const {one, name: its, path} = selected();
  if (!one.elasticity) return null;
  const rows = Object.entries(one.elasticity).filter(([name, value]) => value >= 0.0005 && name !== "other").sort((a, b) => b[1] - a[1])
    .map(([name, value]) => ({
      name: named("hardware", name), text: `${value.toFixed(2)} %`,
      parts: [{from: 0, to: value, colour: "var(--c-blue)", tip: [named("hardware", name), t("help.tip", {value: value.toFixed(3)})], path: `${path}/elasticity/${name}`}],
    }));
  return section("help", t("help.title", {name: its()}),
    picture((width) => bars(width, rows, {label: t("help.title", {name: its()}), format: (value) => `${f.significant(value, 2)} %`})),
    note(t("help.note")),
    numbers([t("column.hardware"), t("column.gain")], Object.keys(one.elasticity).map((name) =>
      [named("hardware", name), cell(`${path}/elasticity/${name}`, (value) => `${value.toFixed(3)} %`)])));
}
