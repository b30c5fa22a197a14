// The numbers under a plot. A cell is {path, text}: where in the answer's JSON its value stands, and how it reads.
import {h} from "./dom.js";
import {answer, t} from "./state.js";

// A key with a slash in it is written as in a JSON pointer (RFC 6901).
export const at = (path) => path.split("/").reduce((node, key) => node?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], answer);
export const key = (name) => name.replaceAll("~", "~0").replaceAll("/", "~1");

// A cell that shows the value at a path, written by `format`.
export function cell(path, format = String) {
  const value = at(path);
  return {path, value, text: value === null || value === undefined ? "–" : format(value)};
}

function sortBy(table, column, button) {
  const body = table.tBodies[0];
  const ascending = button.getAttribute("aria-sort") !== "ascending";
  for (const head of table.tHead.querySelectorAll("th")) head.removeAttribute("aria-sort");
  button.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const key = (row) => row.cells[column].sortKey;
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  const rows = [...body.rows].sort((a, b) => (ascending ? 1 : -1) * order(key(a), key(b)));
  body.append(...rows);
}

function tableCell(content, isHead) {
  const plain = typeof content !== "object";
  const number = !plain && typeof content.value === "number";
  const node = h(
    isHead ? "th" : "td",
    {
      scope: isHead ? "row" : null,
      class: number ? "number" : null,
      "data-path": plain ? null : content.path,
      title: number && String(content.value) !== content.text ? String(content.value) : null,
    },
    plain ? content : content.text,
  );
  node.sortKey = plain ? content : (content.value ?? "");
  return node;
}

// heads: texts; rows: lists of texts or cells, the first of which names the row.
export function table(heads, rows) {
  const node = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, heads.map((head, column) => {
      const cell = h("th", {scope: "col", class: typeof rows[0]?.[column]?.value === "number" ? "number" : null});
      if (head) cell.append(h("button", {type: "button", onclick: () => sortBy(node, column, cell)}, head));
      return cell;
    }))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((content, column) => tableCell(content, column === 0))))),
  );
  return h("div", {class: "scroll", tabindex: 0}, node);
}

// Under a plot it is folded away.
export function numbers(heads, rows) {
  return h("details", {class: "numbers"}, h("summary", {}, t("ui.numbers")), table(heads, rows));
}
