// Draws the pictures of the documents anew from what the program writes, into docs/images.
//
//   node tools/pictures/make.mjs FORETRAIN CHROMIUM      also needs util-linux' script, and python3-pil for small files
import {execFileSync} from "node:child_process";
import {mkdtempSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {dirname, join, resolve} from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";
import {Browser} from "../../tests/browser/browser.mjs";
import {terminal} from "./terminal.mjs";
import {timeline} from "./timeline.mjs";

const [foretrain, chromium] = process.argv.slice(2).map((path) => resolve(path));
process.chdir(join(dirname(fileURLToPath(import.meta.url)), "../.."));
const work = mkdtempSync(join(tmpdir(), "foretrain-pictures-"));
const target = (name) => join("docs/images", name);
const kPalette = "import sys; from PIL import Image; Image.open(sys.argv[1]).convert('RGB').quantize(255, kmeans=2, dither=0).save(sys.argv[1], optimize=True)";

// Pages: the beginning of one, or one of its sections; `act` runs in the page before.
const pages = [
  {file: "report.png", words: ["run", "scenarios/8x40g-vs-4x80g.yaml"], width: 1200, height: 1480},
  {file: "report-phone.png", words: ["run", "scenarios/8x40g-vs-4x80g.yaml", "--lang", "zh"], width: 390, height: 1360, dark: true},
  {file: "report-timeline.png", words: ["run", "scenarios/zero-bubble.yaml", "--case", "ZB-1p"], width: 1200, dark: true, section: "pipeline", act: `async () => {
    const canvas = document.querySelector("canvas");
    canvas.scrollIntoView({block: "center"});
    await new Promise((resolve) => setTimeout(resolve, 200));  // scrolling takes the note away
    const place = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: place.left + 420, clientY: place.top + 110, bubbles: true}));
  }`},
  {file: "plans.png", words: ["plan", "scenarios/which-plan.yaml"], width: 1200, section: "plans"},
  {file: "scaling.png", words: ["scale", "scenarios/gpt3-175b-1024xa100.yaml", "--nodes", "16,32,64,128"], width: 1200, section: "scaling"},
  {file: "rent.png", words: ["rent", "scenarios/rent/8x40g-or-8x80g.yaml"], width: 1200, section: "rent"},
  {file: "what-if.png", words: ["lesson", "what-if"], width: 1200, section: "what-if"},
];

async function draw(browser, {file, words, width, height, dark = false, section, act}) {
  const path = join(work, `${file}.html`);
  execFileSync(foretrain, [...words, "--quiet", "--html", path], {env: {...process.env, LC_ALL: "C.UTF-8"}});
  const tab = await browser.open(pathToFileURL(path).href, {width, dark});
  if (act) await tab.evaluate(act);
  await tab.settled();
  const clip = section ? await tab.evaluate(`(id) => {
    const box = document.getElementById(id).getBoundingClientRect();
    return {x: box.left - 24, y: box.top + scrollY, width: box.width + 48, height: box.height + 8, scale: 1};
  }`, section) : {x: 0, y: 0, width, height, scale: 1};
  const {data} = await tab.send("Page.captureScreenshot", {captureBeyondViewport: true, clip});
  writeFileSync(target(file), Buffer.from(data, "base64"));
  execFileSync("/usr/bin/python3", ["-c", kPalette, target(file)]);
  await tab.close();
}

const browser = new Browser(chromium);
try {
  for (const one of pages) await draw(browser, one);
  writeFileSync(target("terminal.svg"), terminal(foretrain, "tools/run", ["run", "scenarios/8x40g-vs-4x80g.yaml"], {lines: 20}));
  writeFileSync(target("trace.svg"), timeline(foretrain, ["run", "scenarios/zero-bubble.yaml", "--case", "ZB-1p"], join(work, "trace.json"), {processes: 4, from: 0.22, to: 0.42}));
} finally {
  await browser.close();
  rmSync(work, {recursive: true, force: true});
}
