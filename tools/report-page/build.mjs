// Bundles the page into configs/page/report.html.
//
//   npm ci && npm run build       after a change in src/
//   node build.mjs --check        fails if the committed page is not what src/ makes
import {readFile, writeFile} from "node:fs/promises";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../../configs/page/report.html");
const common = {bundle: true, minify: true, write: false, charset: "utf8", legalComments: "none", target: "es2020"};

// The licence of every package that the bundle holds.
async function licences(inputs) {
  const packages = new Set(inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
  const texts = new Map();
  for (const name of [...packages].sort()) {
    const folder = join(here, "node_modules", name);
    const {version} = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const text = (await readFile(join(folder, "LICENSE"), "utf8")).trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
  }
  return [...texts].map(([text, names]) => `${names.join(", ")}\n\n${text}`).join("\n\n");
}

async function page() {
  const script = await esbuild.build({...common, entryPoints: [join(here, "src/main.js")], format: "iife", metafile: true});
  const style = await esbuild.build({...common, entryPoints: [join(here, "src/style.css")]});
  const parts = {
    licences: `Parts of this page:\n\n${await licences(Object.keys(script.metafile.inputs))}`,
    style: style.outputFiles[0].text.trim(),
    // A script block ends at the first "</script", also inside a string.
    script: script.outputFiles[0].text.trim().replaceAll("</script", "<\\/script"),
  };
  const shell = await readFile(join(here, "src/page.html"), "utf8");
  return shell.replace(/@(licences|style|script)@/g, (_, part) => parts[part]);
}

const built = await page();
if (process.argv.includes("--check")) {
  if ((await readFile(target, "utf8")) !== built) {
    console.error("configs/page/report.html is not what tools/report-page/src makes; run npm run build");
    process.exit(1);
  }
} else {
  await writeFile(target, built);
  console.log(`configs/page/report.html: ${(built.length / 1000).toFixed(0)} kB`);
}
