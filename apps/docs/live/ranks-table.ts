import { h, type VNode } from 'vue';
import { table, type Cell } from '../explorers/controls.ts';
import { bytesText, millisecondsText } from '../explorers/quantities.ts';
import type { LiveState } from './live-run.ts';
import { rankLabel } from './rank-mark.ts';

const words = { closed: 'done', failed: 'failed', killed: 'killed', terminated: 'ended' } as const;

/** Shows what each rank keeps and has done. */
export function ranksTable<Look>(size: number, state: LiveState<Look> | undefined): VNode {
  return table(
    'The ranks',
    [
      { title: 'rank' },
      { title: 'step', isNumber: true },
      { title: 'keeps', isNumber: true },
      { title: 'its plan says', isNumber: true },
      { title: 'computed', isNumber: true },
      { title: 'waited', isNumber: true },
      { title: 'state' },
    ],
    Array.from({ length: size }, (_, rank) => {
      const { step = 0, snapshot, end } = state?.ranks[rank] ?? {};
      const word = end === undefined ? (state?.status ?? 'not started') : words[end.status];
      const said = end?.error === undefined ? word : `${word}: ${end.error.message}`;
      return [
        { text: `rank ${rank}`, node: rankLabel(rank) },
        step,
        snapshot === undefined ? '–' : bytesText(snapshot.statesBytes),
        snapshot?.plannedBytes === undefined ? '–' : bytesText(snapshot.plannedBytes),
        snapshot === undefined ? '–' : millisecondsText(snapshot.computeMs),
        snapshot === undefined ? '–' : millisecondsText(snapshot.communicationMs),
        stateCell(said),
      ];
    }),
  );
}

/** Longer texts, such as those of errors, take several lines. */
const SHORT_CHARACTERS = 24;

/** Shows the state of a rank, or its end. */
export function stateCell(text: string): Cell {
  const isLong = text.length > SHORT_CHARACTERS;
  return { text, node: h('span', { class: { 'rank-state': true, long: isLong } }, text) };
}
