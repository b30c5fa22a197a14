// Numbers for people, with their units. The tables carry full figures in their cells' titles.

const kGiB = 2 ** 30;

export function significant(value, digits = 4) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.max(0, digits - 1 - magnitude));
}

export function grouped(value, decimals = 0) {
  const [whole, part] = value.toFixed(decimals).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? "." + part : "");
}

export function seconds(value, digits = 4) {
  const size = Math.abs(value);
  if (size >= 10000) return `${grouped(value)} s`;
  if (size >= 1 || size === 0) return `${significant(value, digits)} s`;
  if (size >= 1e-3) return `${significant(value * 1e3, digits)} ms`;
  if (size >= 1e-6) return `${significant(value * 1e6, digits)} µs`;
  return `${significant(value * 1e9, digits)} ns`;
}

// A round number of an axis needs no zeros behind its point.
export const round = (format) => (value) => format(value).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

const scaled = (value, steps, unit) => {
  const [size, prefix] = steps.find(([least]) => Math.abs(value) >= least) ?? steps[steps.length - 1];
  return `${significant(value / size, 3)} ${prefix}${unit}`;
};
const kSteps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

export const percent = (share, decimals = 1) => `${(100 * share).toFixed(decimals)} %`;
export const gib = (bytes) => `${(bytes / kGiB).toFixed(1)} GiB`;
export const gigabytes = (value) => `${significant(value / 1e9, 3)} GB`;
export const bytes = (value) => scaled(value, kSteps, "B");
export const rate = (value) => scaled(value, kSteps, "B/s");
export const flops = (value) => scaled(value, kSteps, "FLOP");
export const flopRate = (value) => scaled(value, kSteps, "FLOP/s");
export const hours = (value) => (value >= 100 ? `${grouped(value)} h` : `${significant(value, 3)} h`);
export const money = (value, currency) => `${Math.abs(value) >= 1000 ? grouped(value) : value.toFixed(2)} ${currency}`;
export const parameters = (value) => scaled(value, [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"], [1, ""]], "").trim();
