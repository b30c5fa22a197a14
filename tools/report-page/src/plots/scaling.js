// Speed on more and more GPUs, where the answer holds it (`view.scaling`, in the form of `foretrain scale --json`).
import {plain} from "../colours.js";
import * as f from "../format.js";
import {legend, note, picture, section} from "../plot.js";
import {answer, named, t} from "../state.js";
import {cell, numbers} from "../table.js";
import {xy} from "../xy.js";

const kColours = ["blue", "orange", "green", "purple", "brown", "vermillion"];

export function scaling() {
  const curves = answer.view.scaling?.cases.map((curve, c) => ({...curve, colour: plain(kColours[c % kColours.length]),
    known: curve.points.map((point, index) => ({point, base: `view/scaling/cases/${c}/points/${index}`})).filter(({point}) => point.report)}));
  if (!curves?.some((curve) => curve.known.length > 1)) return null;
  const [first] = curves[0].known, last = curves[0].known[curves[0].known.length - 1];
  const speed = (point) => point.report.tokens_per_s;
  const ideal = [first, last].map(({point}) => ({x: point.gpus, y: (speed(first.point) * point.gpus) / first.point.gpus}));
  return section("scaling", t("scaling.title"), legend(curves.map(({name, colour}) => ({name, colour}))),
    picture((width) => xy(width, curves.map(({colour, known}) => ({colour, line: true, points: known.map(({point, base}) => ({x: point.gpus, y: speed(point), path: `${base}/report/tokens_per_s`,
      tip: [t("scaling.gpus", {gpus: point.gpus}), `${f.grouped(speed(point))} ${t("metric.tokens")}`, t("scaling.efficiency", {share: f.percent(point.efficiency)})]}))})),
    {label: t("scaling.title"), ideal, x: {title: t("column.gpus"), format: f.grouped, log: true}, y: {title: t("metric.tokens"), format: f.grouped, log: true}})),
    note(t("scaling.note")),
    numbers(["case", "gpus", "step_time", "tokens", "efficiency", "bent_by"].map((head) => t(`column.${head}`)), curves.flatMap((curve) => curve.known.map(({base}) => [curve.name, cell(`${base}/gpus`, f.grouped),
      cell(`${base}/report/step_time_s`, f.seconds), cell(`${base}/report/tokens_per_s`, f.grouped), cell(`${base}/efficiency`, f.percent), cell(`${base}/bent_by`, (cause) => named("cause", cause))]))));
}
