// Speed on more and more GPUs, and how much of each GPU's speed is kept.
import {plain} from "../colours.js";
import {h} from "../dom.js";
import * as f from "../format.js";
import {legend, note, picture, section} from "../plot.js";
import {answer, named, said, t} from "../state.js";
import {cell, numbers} from "../table.js";
import {xy} from "../xy.js";

const kColours = ["blue", "orange", "green", "purple", "brown", "vermillion"];

export function scaling() {
  const curves = answer.cases.map((curve, c) => ({...curve, colour: plain(kColours[c % kColours.length]),
    known: curve.points.map((point, index) => ({point, base: `cases/${c}/points/${index}`})).filter(({point}) => point.report)}));
  const longest = curves.reduce((a, b) => (b.known.length > a.known.length ? b : a));
  const speed = (point) => point.report.tokens_per_s;
  const sizes = [...new Set(curves.flatMap(({known}) => known.map(({point}) => point.gpus)))];
  const gpus = {title: t("column.gpus"), format: (value) => f.grouped(value), log: true, ticks: sizes};
  const tip = (curve, point) => [`${curve.name}, ${t("scaling.gpus", {gpus: f.grouped(point.gpus)})}`, `${f.grouped(speed(point))} ${t("metric.tokens")}`, t("scaling.efficiency", {share: f.percent(point.efficiency)}),
    ...(point.bent_by ? [t("scaling.bent", {cause: named("cause", point.bent_by), share: f.percent(point.bent_share)})] : [])];
  const series = (value, key) => curves.map((curve) => ({colour: curve.colour, line: true, points: curve.known.map(({point, base}) => ({x: point.gpus, y: value(point), path: `${base}/${key}`, tip: tip(curve, point)}))}));
  const ends = longest.known.length > 1 ? [longest.known[0].point, longest.known[longest.known.length - 1].point] : null;
  const ideal = ends?.map((point) => ({x: point.gpus, y: (speed(ends[0]) * point.gpus) / ends[0].gpus}));
  const rows = curves.flatMap((curve, c) => curve.points.map((point, index) => {
    const base = `cases/${c}/points/${index}`;
    return [curve.name, cell(`${base}/gpus`, f.grouped), cell(`${base}/report/step_time_s`, f.seconds), cell(`${base}/report/tokens_per_s`, f.grouped), cell(`${base}/report/tokens_per_s_per_gpu`, f.grouped), cell(`${base}/report/mfu`, f.percent),
      cell(`${base}/efficiency`, f.percent), cell(`${base}/bent_by`, (cause) => named("cause", cause)), cell(`${base}/bent_share`, f.percent), cell(`${base}/why_not`, said)];
  }));
  const drawn = sizes.length > 0;
  const missing = curves.flatMap((curve) => curve.points.filter((point) => !point.report).map((point) => `${curves.length > 1 ? `${curve.name}, ` : ""}${t("scaling.gpus", {gpus: f.grouped(point.gpus)})}: ${said(point.why_not)}`));
  return section("scaling", t("scaling.title"), curves.length > 1 && legend(curves.map(({name, colour}) => ({name, colour}))),
    drawn && picture((width) => xy(width, series(speed, "report/tokens_per_s"), {label: t("scaling.title"), ideal, x: gpus, y: {title: t("metric.tokens"), format: (value) => f.grouped(value), log: true}})),
    drawn && note(t(answer.scaling === "weak" ? "scaling.weak" : "scaling.strong"), " ", t("scaling.note")),
    missing.length > 0 && h("ul", {class: "sentences"}, missing.map((why) => h("li", {}, why))),
    drawn && h("h3", {}, t("scaling.kept")),
    drawn && picture((width) => xy(width, series((point) => 100 * point.efficiency, "efficiency"), {label: t("scaling.kept"), x: gpus, y: {title: "%", format: (value) => f.grouped(value)}})),
    numbers(["case", "gpus", "step_time", "tokens", "tokens_per_gpu", "mfu", "efficiency", "bent_by", "bent_share", "why_not"].map((head) => t(`column.${head}`)), rows));
}
