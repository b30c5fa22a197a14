// Hours against money for all that have a price, and which of them nothing beats at both.
import * as f from "../format.js";
import {note, picture, section} from "../plot.js";
import {runs} from "../runs.js";
import {t} from "../state.js";
import {cell, numbers} from "../table.js";
import {xy} from "../xy.js";

export function money() {
  const priced = runs.filter(({one}) => one.cost?.amount > 0 && one.cost.hours > 0);
  const currencies = new Set(priced.map(({one}) => one.cost.currency));
  if (priced.length < 2 || currencies.size > 1) return null;
  const [currency] = currencies;
  const best = ({one}) => one.fits && !priced.some(({one: other}) => other !== one && other.fits && other.cost.hours <= one.cost.hours && other.cost.amount <= one.cost.amount);
  const point = (run) => ({
    x: run.one.cost.hours, y: run.one.cost.amount, name: run.name(), strong: best(run), hollow: !run.one.fits, path: `${run.path}/cost/amount`,
    tip: [run.name(), `${f.hours(run.one.cost.hours)} · ${f.money(run.one.cost.amount, currency)}`, best(run) ? t("money.best") : run.one.fits ? t("money.beaten") : t("ui.does_not_fit")],
  });
  const front = priced.filter(best).map(point).sort((a, b) => a.x - b.x);
  return section("money", t("money.title"),
    picture((width) => xy(width, [{colour: "var(--c-blue)", points: front, line: true}, {colour: "var(--c-idle)", points: priced.filter((its) => !best(its)).map(point)}],
      {label: t("money.title"), x: {title: t("money.hours"), format: (value) => f.grouped(value)}, y: {title: currency, format: (value) => f.grouped(value)}})),
    note(t("money.note")),
    numbers(["case", "hours", "cost", "per_billion"].map((head) => t(`column.${head}`)), priced.map(({name, path}) => [name(), cell(`${path}/cost/hours`, f.hours),
      cell(`${path}/cost/amount`, (value) => f.money(value, currency)), cell(`${path}/cost/per_billion_tokens`, (value) => f.money(value, currency))])));
}
