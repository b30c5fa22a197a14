// Colours that stay apart for colour-blind readers (after Okabe and Ito, 2008), as names of the style sheet's variables;
// waiting is hatched as well.
const of = (name) => `var(--c-${name})`;

const kCauses = {
  compute: "blue", launch: "sky", tp_comm: "orange", cp_comm: "yellow", ep_comm: "vermillion", dp_comm: "purple",
  zero_comm: "violet", pp_comm: "brown", bubble: "idle", offload: "ink", optimizer: "green", other: "grey",
};
const kMemory = {
  weights: "blue", gradients: "orange", optimizer: "green", gathered_parameters: "sky", communication_buffers: "brown",
  activations: "purple", working_set: "violet", logits: "yellow", optimizer_extra: "teal", context_and_communicators: "grey", staging_buffers: "brown", rounding: "grey", processes: "ink",
};
const kActivities = {
  forward: "blue", backward: "orange", input_gradient: "orange", weight_gradient: "yellow", communication: "purple",
  optimizer: "green", host: "ink", other: "grey", left_out: "idle",
};
const kSpare = ["teal", "vermillion", "ink", "brown"];

const colour = (table, name, index) => of(table[name] ?? kSpare[index % kSpare.length]);

export const causeColour = (name, index = 0) => colour(kCauses, name, index);
export const memoryColour = (name, index = 0) => colour(kMemory, name, index);
export const activityColour = (name, index = 0) => colour(kActivities, name, index);
export const isHatched = (name) => name === "bubble" || name === "left_out";
export const plain = of;

// The value of a colour for a canvas.
export function resolved(name) {
  const variable = /var\((--[\w-]+)\)/.exec(name);
  return variable ? getComputedStyle(document.documentElement).getPropertyValue(variable[1]).trim() : name;
}
