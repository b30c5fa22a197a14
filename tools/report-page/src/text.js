// The sections that are words: the verdict, how sure it is, what was understood and assumed, where it came from.
import {h} from "./dom.js";
import * as f from "./format.js";
import {note, section} from "./plot.js";
import {groups, isBest, rivals, runs} from "./runs.js";
import {answer, kind, named, said, t} from "./state.js";
import {cell, table} from "./table.js";

const figure = (name, text, more) => h("div", {class: "figure"}, h("dt", {}, name), h("dd", {}, text, more && h("small", {}, more)));

function figuresOf(one) {
  const range = one.step_time_range_s;
  const figures = [
    figure(t("metric.step_time"), f.seconds(one.step_time_s), range && t("verdict.range", {low: f.seconds(range[0], 3), high: f.seconds(range[1], 3)})),
    figure(t("metric.tokens"), f.grouped(one.tokens_per_s), t("verdict.per_gpu", {tokens: f.grouped(one.tokens_per_s_per_gpu)})),
    figure(t("metric.mfu"), f.percent(one.mfu), t("verdict.of_peak", {rate: `${f.significant(one.model_tflops_per_gpu, 3)} TFLOP/s`})),
    figure(t("verdict.memory"), f.gib(one.memory.gpu_peak_bytes ?? 0), t("verdict.of", {capacity: f.gib(one.memory.gpu_capacity_bytes)})),
  ];
  if (typeof one.cost?.hours === "number") figures.push(figure(t("metric.hours"), f.hours(one.cost.hours), typeof one.cost.amount === "number" ? f.money(one.cost.amount, one.cost.currency) : null));
  return figures;
}

// What the answer is, in a sentence or two, under its question.
function opening(good, ...more) {
  return h("section", {id: "verdict", class: good ? "verdict" : "verdict bad", "aria-labelledby": "question"},
    h("h1", {id: "question"}, said(answer.title) || t("ui.untitled")),
    answer.view.findings.map(({said: sentence, reasons}) => [
      h("p", {class: "because"}, said(sentence)),
      reasons.length > 0 && h("ul", {class: "reasons"}, reasons.map((reason) => h("li", {}, said(reason)))),
    ]), ...more);
}

// The answer, and the figures of the case that wins, or of the only one.
export function verdict() {
  const {verdict: its} = answer;
  const best = runs.find(isBest) ?? runs[0], several = runs.length > 1;
  const good = its.winner !== null, facts = [];
  if (several && good) facts.push(t("verdict.ratio", {ratio: f.significant(its.ratio, 3)}));
  if (typeof its.likelihood === "number") facts.push(t("verdict.likelihood", {share: f.percent(its.likelihood, 0)}));
  return opening(good,
    facts.length > 0 && h("p", {class: "facts"}, facts.join(" · ")),
    h("div", {class: "winner"}, several ? t("verdict.figures", {name: best.name()}) : best.name()),
    h("dl", {class: "figures"}, figuresOf(best.one)));
}

export function planned() {
  const best = runs.find(isBest);
  return opening(answer.cases.every(({plans}) => plans.length > 0), best && h("div", {class: "winner"}, t("verdict.figures", {name: best.name()})), best && h("dl", {class: "figures"}, figuresOf(best.one)));
}
export const scaled = () => opening(runs.length > 0);
export const rented = () => opening(answer.best !== null);
export const taught = () => opening(true, h("p", {class: "because"}, said(answer.text)));

export function sure() {
  if (!runs.some(({one}) => one.step_time_range_s)) return null;
  // Plans of a question have the same range but for their step time.
  const shown = kind === "plan" ? runs.filter(isBest).map((run) => ({...run, name: () => groups[run.group].name})) : runs;
  const rows = shown.map(({name, path}) => {
    const of = (key, write) => cell(`${path}/${key}`, write);
    return [name(), of("step_time_s", f.seconds), of("step_time_range_s/0", f.seconds), of("step_time_range_s/1", f.seconds),
      of("confidence", (word) => named("confidence", word)), of("nearest_measured/name"), of("nearest_measured/gpus", f.grouped), of("nearest_measured/gpu"), of("nearest_measured/software"),
      of("nearest_measured/error", (error) => `${error > 0 ? "+" : ""}${f.percent(error)}`)];
  });
  const heads = ["case", "step_time", "low", "high", "confidence", "nearest", "gpus", "gpu", "software", "error"];
  return section("sure", t("sure.title"), note(t("sure.note")), table(heads.map((head) => t(`column.${head}`)), rows));
}

export function fit() {
  const missing = answer.cases.map((one, index) => ({one, index})).filter(({one}) => !one.fits);
  if (missing.length === 0) return null;
  return section("fit", t("fit.title"), missing.map(({one, index}) => [
    h("p", {}, t("fit.missing", {name: one.name, bytes: f.gib(one.missing_bytes)})),
    one.changes.length > 0
      ? table(["change", "must_fit", "step_time"].map((head) => t(`column.${head}`)), one.changes.map((_, at) =>
          [cell(`cases/${index}/changes/${at}/change`), cell(`cases/${index}/changes/${at}/gpu_peak_bytes`, f.gib), cell(`cases/${index}/changes/${at}/step_time_s`, f.seconds)]))
      : note(t("fit.nothing")),
  ]));
}

const sizes = (plan) => ["tp", "pp", "vpp", "dp", "ep", "etp"].filter((key) => plan[key] > 1).map((key) => `${key.toUpperCase()} ${plan[key]}`).join(" · ") || "–";
const recompute = (value) => (typeof value === "string" ? value : JSON.stringify(value));

export function understood() {
  const facts = {
    model: (one) => `${one.model.name}, ${f.parameters(one.model.parameters)}, ${t("understood.layers", {layers: one.model.layers, hidden: f.grouped(one.model.hidden)})}`,
    machine: (one) => `${f.grouped(one.cluster.gpus)} × ${one.cluster.gpu}${one.cluster.nodes > 1 ? `, ${t("understood.nodes", {nodes: f.grouped(one.cluster.nodes), each: one.cluster.gpus_per_node})}` : ""}`,
    links: (one) => `${one.cluster.intra}${one.cluster.net ? `, ${one.cluster.nics} × ${f.grouped(one.cluster.nic_gbps)} Gbit/s ${named("network", one.cluster.net)}` : ""}`,
    training: (one) => t("understood.batch", {batch: f.grouped(one.train.global_batch), tokens: f.grouped(one.train.seq_len), precision: one.train.precision, optimizer: one.train.optimizer, attention: one.train.attention}),
    parallel: (one) => sizes(one.plan),
    schedule: (one) => (one.plan.pp > 1 ? one.plan.schedule : "–"),
    zero: (one) => `ZeRO ${one.plan.zero}`,
    recompute: (one) => recompute(one.plan.recompute),
    micro_batch: (one) => t("understood.micro_batches", {size: one.plan.micro_batch, count: f.grouped(one.micro_batches)}),
    software: (one) => one.software,
    simulated: (one) => t("understood.ranks", {simulated: f.grouped(one.simulated_ranks), all: f.grouped(one.total_ranks), events: f.grouped(one.events)}),
    fingerprint: (one) => one.fingerprint,
  };
  const rows = Object.entries(facts).map(([key, write]) => [t(`understood.${key}`), ...rivals().map(({one}) => write(one))]);
  return section("understood", t("understood.title"), table([t("understood.what"), ...rivals().map(({name}) => name())], rows));
}

// Sentences of the runs, each once, with those it is about unless that is all of them.
function sentences(of) {
  const about = new Map();
  for (const {one, name} of rivals()) for (const sentence of of(one)) about.set(sentence, [...(about.get(sentence) ?? []), name()]);
  return [...about].map(([sentence, names]) => h("li", {}, said(sentence), names.length < rivals().length && h("small", {}, ` (${[...new Set(names)].join(", ")})`)));
}

export function assumptions() {
  const warned = sentences((one) => one.warnings), assumed = sentences((one) => one.assumptions);
  if (warned.length + assumed.length === 0) return null;
  return section("assumed", t("assumed.title"),
    warned.length > 0 && [h("h3", {}, t("assumed.warnings")), h("ul", {class: "sentences warnings"}, warned)],
    assumed.length > 0 && [h("h3", {}, t("assumed.assumptions")), h("ul", {class: "sentences"}, assumed)]);
}

export function origin() {
  const drawn = runs.filter(({view}) => view).length;
  return h("footer", {id: "origin"}, h("h2", {}, t("origin.title")), h("pre", {tabindex: 0}, h("code", {}, answer.view.command)),
    h("p", {}, `foretrain ${answer.view.version}. `, t("origin.note"), drawn < runs.length ? ` ${t("origin.pictured", {pictured: drawn, all: runs.length})}` : ""));
}
