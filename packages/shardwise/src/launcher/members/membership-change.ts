import { describeEnd } from '../failure.ts';
import type { RankEnd } from '../ranks/rank-handle.ts';

/** Ranks that are gone at once, by the numbers that they were started with. */
export interface LostRanks {
  readonly numbers: readonly number[];
  readonly end: Pick<RankEnd, 'exitCode' | 'error' | 'fate' | 'terminated'>;
}

/** What the launcher says when other ranks go on. */
export interface MembershipChange {
  readonly worldSize: number;
  /** The number of updates of the state that they go on with. */
  readonly step: number;
  readonly reason: string;
  /** The ranks that wait until they make up a replica with others, by the numbers that they were started with. */
  readonly waiting: readonly number[];
}

/** Says why other ranks go on: who is lost, and who has come. */
export function changeReason(lost: readonly LostRanks[], come: readonly number[]): string {
  const gone = lost.map(({ numbers, end }) => {
    const ranks = numbers.length === 1 ? 'Rank' : 'Ranks';
    const were = numbers.length === 1 ? 'was' : 'were';
    return `${ranks} ${numbers.join(', ')} ${were} lost: ${describeEnd(end)}`;
  });
  const joined =
    come.length === 0
      ? []
      : [
          `${come.length === 1 ? 'Rank' : 'Ranks'} ${come.join(', ')} came in the place of lost ones`,
        ];
  return [...gone, ...joined].join('. ').replace(/\.$/, '');
}

/** Says in one line who goes on, and from where. */
export function changeText({ worldSize, step, reason, waiting }: MembershipChange): string {
  const ranks = worldSize === 1 ? '1 rank goes on' : `${worldSize} ranks go on`;
  const others =
    waiting.length === 0
      ? ''
      : ` ${waiting.length === 1 ? 'Rank' : 'Ranks'} ${waiting.join(', ')} ${waiting.length === 1 ? 'waits' : 'wait'} for the rest of a replica.`;
  return `${reason}. ${ranks} after step ${step}.${others}`;
}
