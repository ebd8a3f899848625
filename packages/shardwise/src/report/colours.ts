import type { TimelineEntry } from '../run-state/run-message.ts';

/** CSS variables of the page, which has a light and a dark scheme. */
export const colours = {
  train: 'var(--blue)',
  validation: 'var(--orange)',
  speed: 'var(--green)',
  compute: 'var(--blue)',
  communication: 'var(--orange)',
  data: 'var(--green)',
  graph: 'var(--violet)',
  stage: 'var(--teal)',
  inputGradient: 'var(--pink)',
  weightGradient: 'color-mix(in srgb,var(--grey) 50%,var(--soft))',
  other: 'var(--grey)',
} as const;

export const categoryColours: Readonly<Record<TimelineEntry['category'], string>> = {
  compute: colours.compute,
  collective: colours.communication,
  transfer: colours.other,
  data: colours.data,
  graph: colours.graph,
  stage: colours.stage,
};

const rankColours = ['blue', 'orange', 'green', 'violet', 'red', 'teal', 'pink', 'grey'] as const;

export function rankColour(rank: number): string {
  return `var(--${rankColours[rank % rankColours.length] ?? 'grey'})`;
}

/**
 * Returns the colour of a pipeline's action by its name, such as `1F0`. Forward passes, backward passes with input
 * gradients, and passes for weight gradients have different colours.
 */
export function stageColour(name: string): string {
  if (/^\d+[BI]\d+$/.test(name)) return colours.inputGradient;
  return /^\d+W\d+$/.test(name) ? colours.weightGradient : colours.stage;
}
