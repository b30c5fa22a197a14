// Ticks of a logarithmic axis.

// 1, 2 and 5 times the powers of ten; the powers alone where those are many.
export function decades(low, high) {
  const steps = high / low > 3000 ? [1] : [1, 2, 5], ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) ticks.push(...steps.map((step) => step * 10 ** power));
  return ticks.filter((tick) => tick >= low && tick <= high);
}
