// Hours against money for all that have a price, and which of them nothing beats at both.
import * as f from "../format.js";
import {note, picture, section} from "../plot.js";
import {answer, t} from "../state.js";
import {cell, numbers} from "../table.js";
import {xy} from "../xy.js";

export function money() {
  const priced = answer.cases.map((one, index) => ({one, index})).filter(({one}) => one.cost?.amount > 0 && one.cost.hours > 0);
  const currencies = new Set(priced.map(({one}) => one.cost.currency));
  if (priced.length < 2 || currencies.size > 1) return null;
  const [currency] = currencies;
  const best = ({one}) => one.fits && !priced.some(({one: other}) => other !== one && other.fits && other.cost.hours <= one.cost.hours && other.cost.amount <= one.cost.amount);
  const point = ({one, index}) => ({
    x: one.cost.hours, y: one.cost.amount, name: one.name, strong: best({one}), path: `cases/${index}/cost/amount`,
    tip: [one.name, `${f.hours(one.cost.hours)} · ${f.money(one.cost.amount, currency)}`, best({one}) ? t("money.best") : one.fits ? t("money.beaten") : t("ui.does_not_fit")],
  });
  const front = priced.filter(best).map(point).sort((a, b) => a.x - b.x);
  return section("money", t("money.title"),
    picture((width) => xy(width, [{colour: "var(--c-blue)", points: front, line: true}, {colour: "var(--c-grey)", points: priced.filter((its) => !best(its)).map(point)}],
      {label: t("money.title"), x: {title: t("money.hours"), format: (value) => f.grouped(value)}, y: {title: currency, format: (value) => f.grouped(value)}})),
    note(t("money.note")),
    numbers(["case", "hours", "cost", "per_billion"].map((head) => t(`column.${head}`)), priced.map(({index}) => [cell(`cases/${index}/name`), cell(`cases/${index}/cost/hours`, f.hours),
      cell(`cases/${index}/cost/amount`, (value) => f.money(value, currency)), cell(`cases/${index}/cost/per_billion_tokens`, (value) => f.money(value, currency))])));
}
