// The page: sections made of the answer, each on its own; one that has no data is left out.
import {h} from "./dom.js";
import {drawPlots, forgetPlots} from "./plot.js";
import {breakdown, elasticity} from "./plots/breakdown.js";
import {compare} from "./plots/compare.js";
import {lesson} from "./plots/lesson.js";
import {memory} from "./plots/memory.js";
import {money} from "./plots/money.js";
import {pipeline} from "./plots/pipeline.js";
import {plans} from "./plots/plans.js";
import {rent} from "./plots/rent.js";
import {roofline} from "./plots/roofline.js";
import {scaling} from "./plots/scaling.js";
import {topology} from "./plots/topology.js";
import {whatIf} from "./plots/what_if.js";
import {groups, runs} from "./runs.js";
import {answer, kind, languages, said, state, t} from "./state.js";
import {assumptions, fit, origin, planned, rented, scaled, sure, taught, understood, verdict} from "./text.js";
import {hideTip, installTips} from "./tip.js";

const pages = {
  run: [verdict, compare, fit, breakdown, memory, pipeline, roofline, topology, elasticity, money, sure, understood, assumptions, origin],
  plan: [planned, plans, sure, breakdown, memory, pipeline, roofline, topology, elasticity, understood, assumptions, origin],
  scale: [scaled, scaling, breakdown, memory, pipeline, topology, elasticity, understood, assumptions, origin],
  rent: [rented, ...rent, origin],
  lesson: [taught, whatIf, ...lesson, origin],
};
const ofRuns = new Set([breakdown, memory, pipeline, roofline, topology, elasticity, understood, assumptions]);
const sections = pages[kind].filter((make) => runs.length > 0 || !ofRuns.has(make));

function remember(key, value) {
  try {
    localStorage.setItem(`foretrain-${key}`, value);
  } catch {
    // pages opened from disk may have no storage
  }
}
function remembered(key) {
  try {
    return localStorage.getItem(`foretrain-${key}`) ?? "";
  } catch {
    return "";
  }
}

const isDark = () => (state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

function setTheme(theme) {
  state.theme = theme;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function header() {
  const language = h("select", {"aria-label": t("ui.language"), onchange: (event) => {
    state.language = event.target.value;
    remember("language", state.language);
    render();
  }}, languages.map((key) => h("option", {value: key, selected: key === state.language}, t(`language.${key}`))));
  const theme = h("button", {type: "button", onclick: () => {
    setTheme(isDark() ? "light" : "dark");
    remember("theme", state.theme);
    render();
  }}, t(isDark() ? "ui.light" : "ui.dark"));
  return h("header", {}, h("span", {class: "brand"}, "foretrain"), h("span", {class: "spring"}), language, theme);
}

const nameOf = (id) => (id.startsWith("step-") ? t("nav.step", {number: id.slice(5)}) : t(`nav.${id}`));

function navigation(made) {
  const links = made.filter((node) => node.id && node.id !== "verdict" && node.querySelector("h2")).map((node) => h("a", {href: `#${node.id}`}, nameOf(node.id)));
  const option = (run) => h("option", {value: runs.indexOf(run), selected: runs.indexOf(run) === state.run}, run.name());
  const of = (group) => runs.filter((run) => run.group === group).map(option);
  const picker = runs.length > 1 && h("label", {class: "picker"}, h("span", {}, t(`picker.${kind}`)), h("select", {onchange: (event) => {
    state.run = Number(event.target.value);
    render();
  }}, groups.length > 1 ? groups.map(({name}, group) => h("optgroup", {label: name}, of(group))) : of(0)));
  return h("nav", {"aria-label": t("ui.sections")}, h("div", {class: "links"}, links), picker);
}

function render(focus) {
  const top = scrollY;
  hideTip();
  forgetPlots();
  document.documentElement.lang = state.language === "zh" ? "zh-CN" : state.language;
  document.title = said(answer.title) || "foretrain";
  const made = sections.map((make) => make(render)).filter(Boolean);
  const [first, ...rest] = made;
  document.querySelector(".page")?.remove();
  document.body.prepend(h("div", {class: "page"}, header(), h("main", {}, first, navigation(made), rest)));
  drawPlots();
  scrollTo(0, top);
  if (focus) document.querySelector(`#${focus} input:checked`)?.focus({preventScroll: true});
}

const language = remembered("language");
if (languages.includes(language)) state.language = language;
setTheme(remembered("theme"));
installTips();
render();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => render());

// Paper is light.
let beforePrint = "";
addEventListener("beforeprint", () => {
  beforePrint = state.theme;
  if (!isDark()) return;
  setTheme("light");
  render();
});
addEventListener("afterprint", () => {
  if (state.theme === beforePrint) return;
  setTheme(beforePrint);
  render();
});
