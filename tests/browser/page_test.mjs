// The page of `foretrain run --html` in a real browser.
//
//   node tests/browser/page_test.mjs FORETRAIN CHROMIUM [FOLDER]     FOLDER: keeps pictures of the pages there
import {execFileSync} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {dirname, join} from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";
import {Browser} from "./browser.mjs";

const [foretrain, chromium, pictures] = process.argv.slice(2);
const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const work = mkdtempSync(join(tmpdir(), "foretrain-page-"));
let failures = 0, checks = 0;
function check(holds, what) {
  ++checks;
  if (holds) return;
  ++failures;
  console.error(`FAILED: ${what}`);
}

function page(scenario, ...options) {
  const path = join(work, `${[scenario, ...options].join("-").replace(/\W/g, "-")}.html`);
  execFileSync(foretrain, ["run", scenario, "--quiet", "--html", path, ...options], {cwd: root, env: {...process.env, LC_ALL: "C.UTF-8"}});
  return pathToFileURL(path).href;
}

// Runs in the page. What every section draws, and whether it is what the JSON says.
function inspect() {
  const answer = JSON.parse(document.getElementById("answer").textContent);
  const at = (path) => path.split("/").reduce((node, key) => node?.[key], answer);
  const wrong = [];
  const cells = [...document.querySelectorAll("td[data-path], th[data-path]")];
  for (const cell of cells) {
    const value = at(cell.dataset.path) ?? null, shown = cell.title || cell.textContent;
    if (value === null ? shown !== "–" : typeof value === "number" && Number(shown) !== value) wrong.push(`${cell.dataset.path} is ${value}, shown ${shown}`);
  }
  const sections = [...document.querySelectorAll("section")].filter((section) => section.querySelector(".picture")).map((section) => ({
    id: section.id,
    rows: section.querySelectorAll(".numbers tbody tr").length,
    pictures: [...section.querySelectorAll(".picture")].map((picture) => {
      const canvas = picture.querySelector("canvas");
      if (canvas) {
        const copy = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height}).getContext("2d", {willReadFrequently: true});
        copy.drawImage(canvas, 0, 0);
        const pixels = new Set(new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer));
        return {marks: Number(canvas.dataset.marks), colours: pixels.size};
      }
      return {marks: picture.querySelectorAll(".mark").length, named: Boolean(picture.querySelector("svg[role=img]")?.getAttribute("aria-label"))};
    }),
  }));
  // Lengths of bars are in one proportion to what they stand for, and the drawn ones to the lengths.
  for (const svg of document.querySelectorAll(".picture svg")) {
    const bars = [...svg.querySelectorAll("rect.mark[data-to]")].filter((bar) => at(bar.dataset.path) > 0);
    const scales = bars.map((bar) => (bar.dataset.to - bar.dataset.from) / at(bar.dataset.path));
    if (bars.length && Math.max(...scales) / Math.min(...scales) > 1 + 1e-6) wrong.push(`bars of ${svg.getAttribute("aria-label")}`);
    const long = bars.filter((bar) => Number(bar.getAttribute("width")) > 20);
    const pixels = long.map((bar) => Number(bar.getAttribute("width")) / (bar.dataset.to - bar.dataset.from));
    if (long.length && Math.max(...pixels) / Math.min(...pixels) > 1.06) wrong.push(`widths of ${svg.getAttribute("aria-label")}`);
    // No two labels of a drawing on top of each other.
    const boxes = [...svg.querySelectorAll("text")].filter((text) => text.textContent && !text.getAttribute("transform")).map((text) => ({text: text.textContent, box: text.getBoundingClientRect()}));
    for (let i = 0; i < boxes.length; ++i) {
      for (let j = i + 1; j < boxes.length; ++j) {
        const a = boxes[i].box, b = boxes[j].box;
        const over = Math.min(Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
        if (over > 2.5) wrong.push(`labels "${boxes[i].text}" and "${boxes[j].text}" overlap`);
      }
    }
  }
  return {
    title: document.title, heading: document.querySelector("h1").textContent, because: document.querySelector(".because").textContent === (document.documentElement.lang === "en" ? answer.verdict.because : answer.view.sentences.zh[answer.verdict.because]),
    command: document.querySelector("footer code").textContent === answer.view.command, cells: cells.length, wrong, sections,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    ground: getComputedStyle(document.body).backgroundColor, language: document.documentElement.lang,
    unnamed: [...document.querySelectorAll("button, select, input")].filter((control) => !(control.getAttribute("aria-label") || control.closest("label")?.textContent || control.textContent)).length,
  };
}

const needed = {
  "scenarios/gpt3-175b-1024xa100.yaml": ["compare", "time", "memory", "pipeline", "roofline", "machine", "help"],
  "scenarios/8x40g-vs-4x80g.yaml": ["compare", "time", "memory", "pipeline", "roofline", "machine", "help"],
  "scenarios/offload.yaml": ["compare", "time", "memory", "pipeline", "roofline", "machine"],
  "scenarios/moe.yaml": ["compare", "time", "memory", "pipeline", "roofline", "machine"],
};
const looks = [{width: 1440, dark: false, language: "en"}, {width: 390, dark: true, language: "zh-CN"}];

function checkPage(its, name, sections) {
  check(its.because && its.command, `${name}: verdict and command are those of the JSON`);
  check(its.cells > 60, `${name}: has tables`);
  for (const what of its.wrong.slice(0, 5)) check(false, `${name}: ${what}`);
  check(its.overflow <= 0, `${name}: ${its.overflow} px too wide`);
  check(its.unnamed === 0, `${name}: every control has a name`);
  for (const id of sections) check(its.sections.some((section) => section.id === id), `${name}: section ${id}`);
  for (const section of its.sections) {
    check(section.rows > 0, `${name}: ${section.id} has a table`);
    for (const picture of section.pictures) check(picture.marks > 0 && (picture.named || picture.colours > 3), `${name}: ${section.id} draws something: ${JSON.stringify(picture)}`);
  }
}

async function keepPicture(tab, name, width) {
  if (!pictures) return;
  const {cssContentSize} = await tab.send("Page.getLayoutMetrics");
  const clip = {x: 0, y: 0, width, height: cssContentSize.height, scale: 1};
  const {data} = await tab.send("Page.captureScreenshot", {captureBeyondViewport: true, clip});
  writeFileSync(join(pictures, `${name.replace(/\W/g, "-")}-${width}.png`), Buffer.from(data, "base64"));
}

async function looked(browser, url, name, sections) {
  for (const look of looks) {
    const tab = await browser.open(url, look);
    const its = await tab.evaluate(inspect.toString());
    const where = `${name} at ${look.width} px`;
    checkPage(its, where, sections);
    const [red] = /\d+/.exec(its.ground);
    check(look.dark ? red < 60 : red > 200, `${where}: ${its.ground} is the colour scheme asked for`);
    check(its.language.startsWith(look.language.slice(0, 2)), `${where}: speaks ${its.language}`);
    await keepPicture(tab, name, look.width);
    check(tab.troubles.length === 0, `${where}: ${tab.troubles.slice(0, 3).join("; ")}`);
    check(tab.requests.every((asked) => asked === url || asked.startsWith("data:")), `${where}: asks for ${tab.requests}`);
    await tab.close();
  }
}

// Everything that can be pressed, pressed.
async function used(browser, url) {
  const tab = await browser.open(url, {width: 1440});
  const cases = await tab.evaluate("() => document.querySelectorAll('.picker option').length");
  check(cases === 6, `the case can be chosen among ${cases}`);
  for (let index = 0; index < cases; ++index) {
    await tab.evaluate("(index) => { const picker = document.querySelector('.picker select'); picker.value = index; picker.dispatchEvent(new Event('change')); }", index);
    await tab.settled();
    checkPage(await tab.evaluate(inspect.toString()), `case ${index}`, ["pipeline"]);
  }
  for (const metric of await tab.evaluate("() => [...document.querySelectorAll('input[name=metric]')].map((input) => input.value)")) {
    await tab.evaluate("(metric) => document.querySelector(`input[value=${metric}]`).click()", metric);
    await tab.settled();
    checkPage(await tab.evaluate(inspect.toString()), `metric ${metric}`, ["compare"]);
  }
  const canvas = "document.querySelector('canvas')";
  const image = () => tab.evaluate(`() => ${canvas}.toDataURL()`);
  const before = await image();
  const press = async (key) => {
    await tab.evaluate(`(key) => ${canvas}.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}))`, key);
    await tab.settled();
  };
  await press("+");
  await press("+");
  check((await image()) !== before, "the timeline zooms with the keyboard");
  await press("0");
  check((await image()) === before, "and shows all again");
  const tip = await tab.evaluate(`async () => {
    ${canvas}.scrollIntoView({block: "center"});
    const place = ${canvas}.getBoundingClientRect();
    ${canvas}.dispatchEvent(new PointerEvent("pointermove", {clientX: place.left + place.width / 2, clientY: place.top + 36, bubbles: true}));
    return document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent;
  }`);
  check(/micro-batch \d+/.test(tip), `a pass says what it is: ${tip}`);
  const first = "document.querySelector('#compare .numbers table')";
  const sorted = await tab.evaluate(`() => { ${first}.tHead.querySelectorAll("button")[2].click(); return [...${first}.tBodies[0].rows].map((row) => Number(row.cells[2].title)); }`);
  check(sorted.length === 6 && sorted.every((value, index) => index === 0 || sorted[index - 1] <= value), `a table is sorted by its head: ${sorted}`);
  const dark = await tab.evaluate("async () => { document.querySelector('header button').click(); return getComputedStyle(document.body).backgroundColor; }");
  check(Number(/\d+/.exec(dark)[0]) < 60, `the button makes it dark: ${dark}`);
  await tab.evaluate("() => { const picker = document.querySelector('header select'); picker.value = 'zh'; picker.dispatchEvent(new Event('change')); }");
  await tab.settled();
  check((await tab.evaluate("() => document.querySelector('#compare h2').textContent")) === "方案比较", "it speaks Chinese when asked");
  check(tab.troubles.length === 0, `no trouble when used: ${tab.troubles.slice(0, 3).join("; ")}`);
  await tab.close();
}

// The language of --lang comes before the browser's, the reader's own choice before both; sentences of the program follow.
async function spoken(browser) {
  const file = join(work, "spoken.yaml");
  writeFileSync(file, "cases: [{name: one, model: gpt-3-1.3b, cluster: {node: dgx-a100-80g}}]\n");
  const tab = await browser.open(page(file, "--lang", "zh"), {width: 1440, language: "en"});
  const language = () => tab.evaluate("() => [document.documentElement.lang, ...[...document.querySelectorAll('.because, .sentences li')].map((said) => said.textContent)]");
  const [lang, because, ...rest] = await language();
  check(lang === "zh-CN" && /每步/.test(because) && rest.length > 0 && rest.every((said) => /[\u4e00-\u9fff]/.test(said)), `opens in the language of --lang: ${because} ${rest}`);
  await tab.evaluate("() => { const picker = document.querySelector('header select'); picker.value = 'en'; picker.dispatchEvent(new Event('change')); }");
  await tab.settled();
  const english = await language();
  check(english[0] === "en" && english.every((said) => !/[\u4e00-\u9fff]/.test(said)), `and speaks English when asked: ${english}`);
  check(tab.troubles.length === 0, `no trouble in two languages: ${tab.troubles}`);
  await tab.close();
}

// Sections whose data other commands have: scaling curves, and prices.
async function extended(browser) {
  const path = fileURLToPath(page("scenarios/8x40g-vs-4x80g.yaml"));
  const html = readFileSync(path, "utf8").replace(/(id="answer">)(.*?)(<\/script>)/s, (_, before, json, after) => {
    const answer = JSON.parse(json);
    answer.cases.forEach((one, index) => (one.cost = {...one.cost, amount: 1000 + 137 * index, per_billion_tokens: 1000, currency: "USD"}));
    const points = [8, 16, 64].map((gpus) => ({gpus, efficiency: 8 / (gpus + 1), bent_by: "dp_comm", bent_share: 0.1, report: {...answer.cases[0], tokens_per_s: 3000 * gpus ** 0.9}}));
    answer.view.scaling = {scaling: "strong", cases: [{name: "one", points}, {name: "two", points: points.slice(1)}]};
    return before + JSON.stringify(answer).replaceAll("<", "\\u003c") + after;
  });
  writeFileSync(path, html);
  const tab = await browser.open(pathToFileURL(path).href, {width: 390});
  checkPage(await tab.evaluate(inspect.toString()), "with curves and prices", ["scaling", "money"]);
  check((await tab.evaluate("() => document.querySelectorAll('#scaling .mark').length")) === 5, "every point of the curves is drawn");
  check((await tab.evaluate("() => document.querySelectorAll('#money .mark').length")) === 6, "every price is drawn");
  check(tab.troubles.length === 0, `with curves and prices: ${tab.troubles}`);
  await keepPicture(tab, "with-curves-and-prices", 390);
  await tab.close();
}

async function hostile(browser) {
  const file = join(work, "hostile.yaml");
  const title = "</script><img src=x onerror=document.title='bad'>&lt;b&gt;";
  writeFileSync(file, `title: "${title}"\nbase: {model: gpt-3-1.3b, train: {global_batch: 8}, cluster: {node: dgx-a100-80g}, software: megatron-core}\n` +
    `cases: [{name: "<b onclick='x()'>one</b>"}, {name: "<script>document.title='bad'</script>", plan: {zero: 1}}]\n`);
  const url = page(file);
  const tab = await browser.open(url, {width: 390});
  const its = await tab.evaluate(inspect.toString());
  checkPage(its, "hostile names", ["compare"]);
  check(its.title === title && its.heading === title, `a title stays text: ${its.title}`);
  check(await tab.evaluate("() => document.querySelectorAll('.page b, .page script, .page img').length === 0"), "names stay text");
  check(tab.troubles.length === 0 && tab.requests.every((asked) => asked === url || asked.startsWith("data:")), `hostile names do nothing: ${tab.troubles} ${tab.requests}`);
  await tab.close();
}

const browser = new Browser(chromium);
const late = setTimeout(() => {
  console.error("FAILED: took more than two minutes");
  browser.process.kill("SIGKILL");
  process.exit(1);
}, 120_000);
try {
  for (const [scenario, sections] of Object.entries(needed)) await looked(browser, page(scenario), scenario, sections);
  await used(browser, page("scenarios/8x40g-vs-4x80g.yaml"));
  await spoken(browser);
  await extended(browser);
  await hostile(browser);
} catch (error) {
  check(false, error.stack);
} finally {
  clearTimeout(late);
  await browser.close();
  rmSync(work, {recursive: true, force: true});
}
console.log(`${checks} checks, ${failures} failed`);
process.exit(failures ? 1 : 0);
