// The answer, and what the reader chose to see of it.

const data = (id) => JSON.parse(document.getElementById(id).textContent);

export const answer = data("answer");
const words = data("words");
export const kind = answer.view.kind;  // the command that was asked

export const state = {language: "en", theme: "", run: 0, metric: "", shares: kind === "scale"};

const languages = Object.keys(words);
const asked = answer.view.language ?? (navigator.language ?? "").toLowerCase();
state.language = languages.find((language) => asked.startsWith(language)) ?? "en";

export {languages};

// A word or sentence of the chosen language; {name} is replaced. A key that no catalogue has is a fault of the page.
export function t(key, values = {}) {
  const text = key.split(".").reduce((at, part) => at?.[part], words[state.language]);
  if (typeof text !== "string") {
    console.error(`no words for ${key} in ${state.language}`);
    return key;
  }
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}
// The same for names that the program may add to: as they are where there are no words for them.
export function named(group, name) {
  const text = words[state.language]?.[group]?.[name];
  return typeof text === "string" ? text : name.replaceAll("_", " ");
}

// A sentence that the program made.
export const said = (sentence) => answer.view.sentences[state.language]?.[sentence] ?? sentence;
