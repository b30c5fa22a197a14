// A headless Chromium driven over its debugging pipe; nothing to install, no port to open.
import {spawn} from "node:child_process";
import {mkdtempSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";

export class Browser {
  #next = 1;
  #waiting = new Map();
  #listeners = [];
  #rest = "";

  constructor(executable) {
    this.profile = mkdtempSync(join(tmpdir(), "foretrain-browser-"));
    this.process = spawn(executable, ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", `--user-data-dir=${this.profile}`, "about:blank"],
      {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
    this.gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.stdio[4].on("data", (data) => {
      const messages = (this.#rest + data).split("\0");
      this.#rest = messages.pop();
      for (const message of messages) this.#receive(JSON.parse(message));
    });
  }

  #receive(message) {
    const waiting = this.#waiting.get(message.id);
    if (!waiting) {
      for (const listen of this.#listeners) listen(message);
      return;
    }
    this.#waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
    else waiting.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    this.process.stdio[3].write(`${JSON.stringify({id, method, params, sessionId})}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, {resolve, reject, method}));
  }

  // A new tab of a size and colour scheme. `troubles` collects errors of the page, `requests` what it asks for.
  async open(url, {width, height = 900, dark = false, language = "en"}) {
    const {targetId} = await this.send("Target.createTarget", {url: "about:blank"});
    const {sessionId} = await this.send("Target.attachToTarget", {targetId, flatten: true});
    const send = (method, params) => this.send(method, params, sessionId);
    const troubles = [], requests = [];
    let loaded;
    const ready = new Promise((resolve) => (loaded = resolve));
    this.#listeners.push(({method, params, sessionId: from}) => {
      if (from !== sessionId) return;
      if (method === "Runtime.consoleAPICalled") troubles.push(params.args.map((argument) => argument.value).join(" "));
      if (method === "Runtime.exceptionThrown") troubles.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === "Log.entryAdded") troubles.push(params.entry.text);
      if (method === "Network.requestWillBeSent") requests.push(params.request.url);
      if (method === "Page.loadEventFired") loaded();
    });
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
    await send("Emulation.setDeviceMetricsOverride", {width, height, deviceScaleFactor: 1, mobile: width < 500});
    await send("Emulation.setEmulatedMedia", {features: [{name: "prefers-color-scheme", value: dark ? "dark" : "light"}]});
    await send("Emulation.setLocaleOverride", {locale: language});
    await send("Page.addScriptToEvaluateOnNewDocument", {source: `Object.defineProperty(navigator, "language", {get: () => ${JSON.stringify(language)}})`});
    await send("Page.navigate", {url});
    await ready;
    const evaluate = async (code, ...values) => {
      const {result, exceptionDetails} = await send("Runtime.evaluate", {expression: `(${code})(...${JSON.stringify(values)})`, awaitPromise: true, returnByValue: true});
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    };
    const settled = () => evaluate("() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 50))))");
    await settled();
    const close = () => this.send("Target.closeTarget", {targetId});
    return {send, evaluate, settled, troubles, requests, close};
  }

  async close() {
    this.send("Browser.close").catch(() => {});
    await this.gone;
    rmSync(this.profile, {recursive: true, force: true});
  }
}
