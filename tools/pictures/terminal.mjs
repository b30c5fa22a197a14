// What a command prints on a terminal, as a drawing: text stays text, and columns stay columns in any font.
import {execFileSync} from "node:child_process";

const kCell = 7.8, kLine = 18, kMargin = 18;
const styles = {1: 'font-weight="bold"', 2: 'fill="#8b949e"', 31: 'fill="#ff7b72"', 32: 'fill="#56d364"'};
const escaped = (text) => text.replace(/[&<>]/g, (letter) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;"})[letter]);
const columnsOf = (text) => [...text].reduce((sum, letter) => sum + (/[\u2e80-\u9fff\uff00-\uff60]/u.test(letter) ? 2 : 1), 0);

// Pieces of a line with their styles, from its escape sequences.
function pieces(line) {
  const found = [];
  let style = "", column = 0;
  for (const part of line.split(/(\x1b\[[\d;]*m)/)) {
    const codes = /^\x1b\[([\d;]*)m$/.exec(part)?.[1].split(";");
    if (codes) {
      style = codes.map((code) => styles[code] ?? "").join(" ").trim();
      continue;
    }
    // Figures keep their column: gaps begin a new piece.
    for (const [text] of part.matchAll(/\S+(?: \S+)*|\s+/g)) {
      if (text.trim()) found.push({text, column, style});
      column += columnsOf(text);
    }
  }
  return found;
}

// Runs the command in a terminal of so many columns; shows the first lines, after the command itself.
export function terminal(foretrain, shown, words, {columns = 104, lines = 30, language = "en"}) {
  const command = [foretrain, ...words, "--lang", language].map((word) => `'${word}'`).join(" ");
  const out = execFileSync("script", ["-qec", command, "/dev/null"], {env: {...process.env, COLUMNS: String(columns), TERM: "xterm-256color", LC_ALL: "C.UTF-8"}}).toString();
  const all = out.replaceAll("\r", "").split("\n").slice(0, lines);
  while (all.at(-1) === "") all.pop();
  let style = "";  // goes on over the end of a line
  const text = [`\x1b[32m$\x1b[0m ${shown}`, ...all].map((line) => {
    const whole = style + line;
    style = [...whole.matchAll(/\x1b\[[\d;]*m/g)].at(-1)?.[0] ?? "";
    if (style === "\x1b[0m") style = "";
    return whole;
  });
  const width = columns * kCell + 2 * kMargin, height = text.length * kLine + 2 * kMargin;
  const drawn = text.flatMap((line, row) => pieces(line).map(({text: piece, column, style: how}) =>
    `<text x="${(kMargin + column * kCell).toFixed(1)}" y="${kMargin + row * kLine + 13}" textLength="${(columnsOf(piece) * kCell).toFixed(1)}" ${how}>${escaped(piece)}</text>`));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" fill="#e6edf3">\n` +
    `<rect width="${width}" height="${height}" rx="8" fill="#14171a"/>\n${drawn.join("\n")}\n</svg>\n`;
}
