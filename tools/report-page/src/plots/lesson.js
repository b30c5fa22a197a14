// A lesson: each step with its runs as a picture and a table, what must come out, and what somebody measured.
import {bars} from "../bars.js";
import {plain} from "../colours.js";
import {h} from "../dom.js";
import * as f from "../format.js";
import {legend, picture, section} from "../plot.js";
import {answer, said, t} from "../state.js";
import {cell, key, table} from "../table.js";
import {xy} from "../xy.js";

const kColours = ["blue", "orange", "green", "purple", "vermillion", "brown", "violet", "teal", "ink", "sky"];

const forms = {
  "yes or no": (value) => t(value > 0 ? "ui.yes" : "ui.no"),
  share: (value) => f.percent(value),
  seconds: (value) => f.seconds(value, 3),
  bytes: f.gigabytes,
  "bytes per second": f.rate,
  number: (value) => (Math.abs(value) >= 1000 ? f.grouped(value) : f.significant(value, 3)),
};

// A curve for each row, a place on the axis for each column.
function curves(step, index, figure) {
  const columns = [...new Set(step.cases.map(({column}) => column))], rows = [...new Set(step.cases.map(({row}) => row))];
  const values = step.cases.map(({figures}) => figures[figure.name]);
  const log = Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 4;
  // On a phone there is room for the curves alone; the legend names them.
  const series = (width) => rows.map((row, order) => ({colour: plain(kColours[order % kColours.length]), line: true, points: step.cases.flatMap((one, at) => (one.row !== row ? [] : [{
    x: columns.indexOf(one.column), y: one.figures[figure.name], path: `steps/${index}/cases/${at}/figures/${key(figure.name)}`, name: width >= 620 && one.column === columns[0] ? said(row) : "", leftward: true,
    tip: [said(row), said(one.column), `${said(figure.name)}: ${forms[figure.form](one.figures[figure.name])}`]}]))}));
  return [legend(rows.map((row, order) => ({name: said(row), colour: plain(kColours[order % kColours.length])}))), picture((width) => xy(width, series(width), {label: `${said(step.title)}: ${said(figure.name)}`,
    x: {title: "", format: (place) => said(columns[Math.round(place)] ?? ""), near: true, ticks: columns.map((_, place) => place)}, y: {title: said(figure.name), format: f.round(forms[figure.form]), log}}))];
}

function figureBars(step, index, figure, alone) {
  const rows = step.cases.map((one, at) => ({name: said(one.row), text: forms[figure.form](one.figures[figure.name]),
    parts: [{from: 0, to: one.figures[figure.name], colour: plain("blue"), path: `steps/${index}/cases/${at}/figures/${key(figure.name)}`, tip: [said(one.row), `${said(figure.name)}: ${forms[figure.form](one.figures[figure.name])}`]}]}));
  return h("div", {}, !alone && h("h3", {}, said(figure.name)), picture((width) => bars(width, rows, {label: `${said(step.title)}: ${said(figure.name)}`, format: forms[figure.form]})));
}

function step(one, index) {
  const figures = answer.view.figures[index], grid = one.cases[0].column !== null;
  const drawn = figures.filter(({name, form}) => form !== "yes or no" && one.cases.some((its) => its.figures[name] > 0));
  const path = (at, name) => `steps/${index}/cases/${at}/figures/${key(name)}`;
  let shown;
  if (grid) {
    const [figure] = figures, columns = [...new Set(one.cases.map(({column}) => column))];
    const rows = [];
    for (let at = 0; at < one.cases.length; at += columns.length) rows.push([said(one.cases[at].row), ...columns.map((_, place) => cell(path(at + place, figure.name), forms[figure.form]))]);
    shown = [curves(one, index, figure), table([said(figure.name), ...columns.map(said)], rows)];
  } else {
    shown = [h("div", {class: drawn.length > 1 ? "multiples" : ""}, drawn.map((figure) => figureBars(one, index, figure, drawn.length === 1 && figures.length === 1))),
      table([t("column.case"), ...figures.map(({name}) => said(name))], one.cases.map((its, at) => [said(its.row), ...figures.map(({name, form}) => cell(path(at, name), forms[form]))]))];
  }
  return section(`step-${index + 1}`, `${index + 1}. ${said(one.title)}`, h("p", {}, said(one.text)), shown,
    one.checks.length > 0 && h("details", {class: "numbers"}, h("summary", {}, t(one.checks.every(({holds}) => holds) ? "lesson.all_hold" : "lesson.not_all", {count: one.checks.length})),
      h("ul", {class: "sentences"}, one.checks.map(({check, holds}) => h("li", {}, `${holds ? "✓" : "✗"} ${said(check)}`)))));
}

function measured() {
  if (answer.measured.length === 0) return null;
  const pairs = answer.measured.flatMap((one, index) => [["step_time_s", "seconds", t("metric.step_time")], ["memory_bytes", "bytes", t("column.memory")]]
    .filter(([what]) => typeof one[`measured_${what}`] === "number").map(([what, form, name]) => ({one, index, what, form, name})));
  const timed = pairs.filter(({what}) => what === "step_time_s");
  const rows = timed.flatMap(({one, index, form}) => ["measured", "predicted"].map((side) => ({name: `${one.name}, ${t(`lesson.${side}`)}`, text: forms[form](one[`${side}_step_time_s`]),
    parts: [{from: 0, to: one[`${side}_step_time_s`], colour: plain(side === "measured" ? "ink" : "blue"), path: `measured/${index}/${side}_step_time_s`, tip: [one.name, `${t(`lesson.${side}`)}: ${forms[form](one[`${side}_step_time_s`])}`]}]})));
  const signed = (error) => `${error > 0 ? "+" : ""}${f.percent(error)}`;
  return section("measured", t("lesson.as_measured"), h("p", {}, said(answer.measured_text)),
    rows.length > 0 && picture((width) => bars(width, rows, {label: t("lesson.as_measured"), format: forms.seconds})),
    table([t("column.run"), "", t("lesson.measured"), t("lesson.predicted"), t("column.error")], pairs.map(({index, what, form, name}) => [cell(`measured/${index}/name`), name,
      cell(`measured/${index}/measured_${what}`, forms[form]), cell(`measured/${index}/predicted_${what}`, forms[form]), cell(`measured/${index}/${what === "step_time_s" ? "error" : "memory_error"}`, signed)])),
    h("ul", {class: "sentences"}, [...new Set(answer.measured.map(({source}) => source))].map((source) => h("li", {}, source))));
}

export const lesson = [...(answer.steps ?? []).map((one, index) => () => step(one, index)), measured];
