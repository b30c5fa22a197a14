// Sliders over runs that were all simulated beforehand: what one step takes where they stand, and if one of them moves.
import {bars} from "../bars.js";
import {causeColour, isHatched, plain} from "../colours.js";
import {h} from "../dom.js";
import * as f from "../format.js";
import {legend, note, picture, refresh, section} from "../plot.js";
import {answer, named, said, t} from "../state.js";
import {cell, numbers} from "../table.js";

const its = answer.what_if;
const kCause = "breakdown_s.";
const kGiB = 2 ** 30;
// Where the sliders stand; kept while the page is made anew in another language.
const places = its?.sliders.map(({start}) => start) ?? [];

const indexOf = (all) => all.reduce((index, place, slider) => index * its.sliders[slider].positions.length + place, 0);
const figure = (point, name) => point[its.figures.indexOf(name)];
const pathOf = (index, name) => `what_if/points/${index}/${its.figures.indexOf(name)}`;
const causes = () => its.figures.filter((name) => name.startsWith(kCause) && its.points.some((point) => figure(point, name) > 0));

function figures(index) {
  const point = its.points[index], fits = figure(point, "fits") > 0;
  const one = (name, text, more) => h("div", {class: "figure"}, h("dt", {}, name), h("dd", {}, text, more && h("small", {}, more)));
  return h("dl", {class: "figures"}, one(t("metric.step_time"), f.seconds(figure(point, "step_time_s"))), one(t("metric.tokens"), f.grouped(figure(point, "tokens_per_s"))),
    one(t("metric.mfu"), f.percent(figure(point, "mfu"))), one(t("verdict.memory"), f.gib(figure(point, "memory.gpu_peak_bytes")), `${t("verdict.of", {capacity: f.gib(figure(point, "memory.gpu_capacity_bytes"))})}${fits ? "" : ` · ${t("ui.does_not_fit")}`}`));
}

function timeBar(width) {
  const index = indexOf(places), point = its.points[index];
  let sum = 0;
  const parts = causes().map((name, order) => {
    const from = sum, cause = name.slice(kCause.length);
    sum += figure(point, name);
    return {from, to: sum, colour: causeColour(cause, order), hatched: isHatched(cause), path: pathOf(index, name), tip: [named("cause", cause), `${f.seconds(figure(point, name))} · ${f.percent(figure(point, name) / figure(point, "step_time_s"))}`]};
  });
  return bars(width, [{name: t("metric.step_time"), text: f.seconds(figure(point, "step_time_s")), parts}], {label: t("what_if.time"), format: f.seconds});
}

function memoryBar(width) {
  const index = indexOf(places), point = its.points[index], used = figure(point, "memory.gpu_peak_bytes"), capacity = figure(point, "memory.gpu_capacity_bytes");
  return bars(width, [{name: t("column.memory"), text: `${f.gib(used)} · ${f.percent(used / capacity, 0)}`, limit: {at: capacity / kGiB, tip: [t("memory.capacity"), f.gib(capacity)]},
    parts: [{from: 0, to: used / kGiB, colour: plain(used > capacity ? "vermillion" : "purple"), path: pathOf(index, "memory.gpu_peak_bytes"), tip: [t("column.memory"), f.gib(used)]}]}], {label: t("column.memory"), format: (gib) => `${f.grouped(gib)} GiB`});
}

// Every position of one slider, the others staying.
const along = (slider) => its.sliders[slider].positions.map((name, place) => ({name, place, index: indexOf(places.map((its, other) => (other === slider ? place : its)))}));

function moved(width, slider) {
  return bars(width, along(slider).map(({name, place, index}) => {
    const point = its.points[index], fits = figure(point, "fits") > 0, time = figure(point, "step_time_s");
    return {name: said(name), strong: place === places[slider], text: fits ? f.seconds(time, 3) : `${f.seconds(time, 3)} · ${t("ui.does_not_fit")}`,
      parts: [{from: 0, to: time, colour: fits ? plain(place === places[slider] ? "blue" : "sky") : plain("idle"), hatched: !fits, path: pathOf(index, "step_time_s"), tip: [said(name), f.seconds(time), f.gib(figure(point, "memory.gpu_peak_bytes"))]}]};
  }), {label: said(its.sliders[slider].name), format: (time) => f.seconds(time, 3)});
}

function tableOf() {
  const shown = ["step_time_s", "tokens_per_s", "mfu", "memory.gpu_peak_bytes"], write = [f.seconds, f.grouped, f.percent, f.gib];
  const rows = its.sliders.flatMap((slider, order) => along(order).map(({name, index}) => [said(slider.name), said(name), ...shown.map((what, at) => cell(pathOf(index, what), write[at])), cell(pathOf(index, "fits"), (fits) => t(fits ? "ui.yes" : "ui.no"))]));
  return numbers([t("what_if.moved"), t("what_if.to"), t("column.step_time"), t("column.tokens"), t("column.mfu"), t("column.memory"), t("column.fits")], rows);
}

export function whatIf() {
  if (!its) return null;
  const pictures = [picture(timeBar), picture(memoryBar), ...its.sliders.map((_, slider) => picture((width) => moved(width, slider)))];
  const state = h("div", {"aria-live": "polite"}, figures(indexOf(places))), rows = h("div", {}, tableOf());
  const update = () => {
    state.replaceChildren(figures(indexOf(places)));
    rows.replaceChildren(tableOf());
    pictures.forEach(refresh);
  };
  const sliders = its.sliders.map((slider, order) => {
    const value = h("output", {}, said(slider.positions[places[order]]));
    const input = h("input", {type: "range", min: 0, max: slider.positions.length - 1, step: 1, value: places[order], "aria-label": said(slider.name), "aria-valuetext": value.textContent, oninput: (event) => {
      places[order] = Number(event.target.value);
      value.textContent = said(slider.positions[places[order]]);
      event.target.setAttribute("aria-valuetext", value.textContent);
      update();
    }});
    return h("label", {class: "slider"}, h("span", {}, said(slider.name)), value, input);
  });
  const shownCauses = causes().map((name) => name.slice(kCause.length));
  return section("what-if", t("what_if.title"), h("p", {}, said(its.text)), h("div", {class: "sliders"}, sliders), state,
    legend(shownCauses.map((cause, order) => ({name: named("cause", cause), colour: causeColour(cause, order), hatched: isHatched(cause)}))), pictures[0], pictures[1],
    note(t("what_if.note", {points: f.grouped(its.points.length)})), h("h3", {}, t("what_if.alone")),
    h("div", {class: "multiples"}, its.sliders.map((slider, order) => h("div", {}, h("h4", {}, said(slider.name)), pictures[order + 2]))), rows);
}
