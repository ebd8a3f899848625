import type { TimelineEntry } from '../run-state/message.ts';

/** CSS variables of the page, which knows light and dark. */
export const colours = {
  train: 'var(--blue)',
  validation: 'var(--orange)',
  speed: 'var(--green)',
  compute: 'var(--blue)',
  communication: 'var(--orange)',
  data: 'var(--green)',
  graph: 'var(--violet)',
  stage: 'var(--teal)',
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
