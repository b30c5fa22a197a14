// The pages of `foretrain ... --html` in a real browser.
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

// The page of a command, as an address.
function pageOf(...words) {
  const path = join(work, `${words.join("-").replace(/\W/g, "-")}.html`);
  execFileSync(foretrain, [...words, "--quiet", "--html", path], {cwd: root, env: {...process.env, LC_ALL: "C.UTF-8"}});
  return pathToFileURL(path).href;
}
const page = (scenario, ...options) => pageOf("run", scenario, ...options);

// Runs in the page. What every section draws, and whether it is what the JSON says.
function inspect() {
  const answer = JSON.parse(document.getElementById("answer").textContent);
  const at = (path) => path.split("/").reduce((node, key) => node?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], answer);
  const wrong = [];
  const cells = [...document.querySelectorAll("td[data-path], th[data-path]")];
  for (const cell of cells) {
    const value = at(cell.dataset.path) ?? null, shown = cell.title || cell.textContent;
    if (value === null ? shown !== "–" : typeof value === "number" && Number(shown) !== value) wrong.push(`${cell.dataset.path} is ${value}, shown ${shown}`);
  }
  const sections = [...document.querySelectorAll("section")].filter((section) => section.querySelector(".picture")).map((section) => ({
    id: section.id,
    rows: section.querySelectorAll("tbody tr").length,
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
    const bars = [...svg.querySelectorAll("rect.mark[data-to][data-path]")].filter((bar) => at(bar.dataset.path) > 0);
    const scales = bars.map((bar) => (bar.dataset.to - bar.dataset.from) / at(bar.dataset.path));
    const inShares = answer.view.kind === "scale";  // each bar is then a whole of its own
    if (!inShares && bars.length && Math.max(...scales) / Math.min(...scales) > 1 + 1e-6) wrong.push(`bars of ${svg.getAttribute("aria-label")}`);
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
    title: document.title, heading: document.querySelector("h1").textContent, because: [...document.querySelectorAll(".because, .reasons li")].every((said, index) => {
      const sentence = answer.view.findings.flatMap(({said: first, reasons}) => [first, ...reasons])[index] ?? answer.text;
      return said.textContent === (document.documentElement.lang === "en" ? sentence : answer.view.sentences.zh[sentence]);
    }),
    command: document.querySelector("footer code").textContent === answer.view.command, cells: cells.length, wrong, sections,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    ground: getComputedStyle(document.body).backgroundColor, language: document.documentElement.lang,
    unnamed: [...document.querySelectorAll("button, select, input")].filter((control) => !(control.getAttribute("aria-label") || control.closest("label")?.textContent || control.textContent)).length,
  };
}

const needed = [
  [["run", "scenarios/gpt3-175b-1024xa100.yaml"], ["compare", "time", "memory", "pipeline", "roofline", "machine", "help"]],
  [["run", "scenarios/8x40g-vs-4x80g.yaml"], ["compare", "time", "memory", "pipeline", "roofline", "machine", "help"]],
  [["run", "scenarios/offload.yaml"], ["compare", "time", "memory", "pipeline", "roofline", "machine"]],
  [["run", "scenarios/moe.yaml"], ["compare", "time", "memory", "pipeline", "roofline", "machine"]],
  [["run", "--model", "llama-2-7b", "--gpu", "a100-80g", "--gpus", "8", "--vary", "zero=1,2,3"], ["compare", "time", "memory", "pipeline", "roofline", "machine"]],
  [["plan", "scenarios/which-plan.yaml"], ["plans", "time", "memory", "pipeline", "roofline", "machine", "help"]],
  [["scale", "scenarios/gpt3-175b-1024xa100.yaml", "--nodes", "8,16,32,64,128"], ["scaling", "time", "memory", "pipeline", "machine", "help"]],
  [["rent", "scenarios/rent/8x40g-or-8x80g.yaml"], ["rent"]],
  [["lesson", "nvlink"], ["step-1", "step-2", "step-3", "measured"]],
  [["lesson", "what-if"], ["what-if", "step-1", "measured"]],
];
const looks = [{width: 1440, dark: false, language: "en"}, {width: 390, dark: true, language: "zh-CN"}];

function checkPage(its, name, sections) {
  check(its.because && its.command, `${name}: verdict and command are those of the JSON`);
  check(its.cells > 15, `${name}: has tables of ${its.cells} figures`);
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

// Cases with a price each are compared by hours and money.
async function priced(browser) {
  const file = join(work, "priced.yaml");
  writeFileSync(file, "base: {model: llama-2-7b, train: {global_batch: 64, tokens: 1e9}, plan: {zero: 3}, software: deepspeed}\n" +
    "cases:\n" + [[8, "a100-sxm4-80gb", 90], [4, "a100-sxm4-80gb", 50], [8, "h100-sxm5-80gb", 200]].map(([gpus, gpu, price]) =>
      `  - {name: "${gpus} ${gpu}", cluster: {gpu: ${gpu}, gpus: ${gpus}, gpus_per_node: ${gpus}}, price: {per_hour: ${price}, currency: CNY}}\n`).join(""));
  const tab = await browser.open(page(file), {width: 390});
  checkPage(await tab.evaluate(inspect.toString()), "with prices", ["money"]);
  check((await tab.evaluate("() => document.querySelectorAll('#money .mark').length")) === 3, "every price is drawn");
  check(tab.troubles.length === 0, `with prices: ${tab.troubles}`);
  await tab.close();
}

// Plans of every question can be chosen; they are compared with those of their own question.
async function planned(browser) {
  const tab = await browser.open(pageOf("plan", "scenarios/which-plan.yaml"), {width: 1440});
  const {plans, chosen} = await tab.evaluate(`() => {
    const answer = JSON.parse(document.getElementById("answer").textContent), picker = document.querySelector(".picker select");
    return {plans: answer.cases.map((question) => question.plans.length), chosen: picker.options.length};
  }`);
  check(plans.length === 2 && chosen === plans[0] + plans[1], `${chosen} plans can be chosen of ${plans}`);
  const drawn = await tab.evaluate("() => document.querySelector('#plans').querySelectorAll('circle.mark').length");
  check(drawn >= chosen, `${drawn} of ${chosen} plans are in the scatter`);
  await tab.evaluate("(index) => { const picker = document.querySelector('.picker select'); picker.value = index; picker.dispatchEvent(new Event('change')); }", plans[0]);
  await tab.settled();
  const bars = await tab.evaluate("() => document.querySelector('#time .picture').querySelectorAll('text.name').length");
  check(bars === plans[1], `${bars} plans of the second question are compared`);
  checkPage(await tab.evaluate(inspect.toString()), "a plan of the second question", ["pipeline"]);
  check(tab.troubles.length === 0, `plans: ${tab.troubles}`);
  await tab.close();
}

// Sliders move by the keyboard, and what is shown is the point where they stand.
async function explored(browser) {
  const tab = await browser.open(pageOf("lesson", "what-if"), {width: 1440});
  const shown = () => tab.evaluate(`() => {
    const its = JSON.parse(document.getElementById("answer").textContent).what_if;
    const places = [...document.querySelectorAll(".slider input")].map((input) => Number(input.value));
    const point = its.points[places.reduce((index, place, slider) => index * its.sliders[slider].positions.length + place, 0)];
    const bar = [...document.querySelectorAll("#what-if .picture")][0].querySelectorAll("rect.mark");
    return {places, seconds: Math.max(...[...bar].map((part) => Number(part.dataset.to))), wanted: point[0], text: document.querySelector("#what-if .figure dd").textContent};
  }`);
  const press = async (key, code) => {
    for (const type of ["keyDown", "keyUp"]) await tab.send("Input.dispatchKeyEvent", {type, key, code: key, windowsVirtualKeyCode: code});
    await tab.settled();
  };
  const before = await shown(), sliders = before.places.length;
  check(sliders === 6, `${sliders} sliders`);
  for (let slider = 0; slider < sliders; ++slider) {
    await tab.evaluate("(slider) => document.querySelectorAll('.slider input')[slider].focus()", slider);
    const was = await shown();
    await press(was.places[slider] > 0 ? "ArrowLeft" : "ArrowRight", was.places[slider] > 0 ? 37 : 39);
    const is = await shown();
    check(Math.abs(is.places[slider] - was.places[slider]) === 1, `slider ${slider} moves by the keyboard: ${was.places} ${is.places}`);
    check(Math.abs(is.seconds / is.wanted - 1) < 1e-4, `the bar is as long as the simulated step: ${is.seconds} ${is.wanted}`);
    checkPage(await tab.evaluate(inspect.toString()), `slider ${slider} moved`, ["what-if"]);
  }
  check((await shown()).text !== before.text, "figures follow the sliders");
  check(tab.troubles.length === 0, `sliders: ${tab.troubles}`);
  await tab.close();
}

// Paper is light and whole, whatever the screen was.
async function printed(browser) {
  const tab = await browser.open(page("scenarios/8x40g-vs-4x80g.yaml"), {width: 1440, dark: true});
  await tab.evaluate("() => addEventListener('beforeprint', () => { window.onPaper = [getComputedStyle(document.body).backgroundColor, document.querySelectorAll('.picture > *').length, document.querySelectorAll('.picture').length]; })");
  const {data} = await tab.send("Page.printToPDF", {printBackground: true});
  const [ground, drawn, pictures] = await tab.evaluate("() => window.onPaper");
  check(data.length > 100_000, `${data.length} bytes of PDF`);
  check(Number(/\d+/.exec(ground)[0]) > 200 && drawn === pictures, `on paper: ${ground}, ${drawn} of ${pictures} pictures`);
  await tab.settled();
  check(Number(/\d+/.exec(await tab.evaluate("() => getComputedStyle(document.body).backgroundColor"))[0]) < 60, "and dark again after that");
  check(tab.troubles.length === 0, `printing: ${tab.troubles}`);
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
  for (const [words, sections] of needed) await looked(browser, pageOf(...words), words.join(" "), sections);
  await used(browser, page("scenarios/8x40g-vs-4x80g.yaml"));
  await spoken(browser);
  await priced(browser);
  await planned(browser);
  await explored(browser);
  await printed(browser);
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
