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
  /** The number of updates of the state that they go on with. Undefined if they do not say it. */
  readonly step: number | undefined;
  readonly reason: string;
  /** The ranks that wait until they make up a replica with others, by the numbers that they were started with. */
  readonly waiting: readonly number[];
}

/** Why other ranks go on. */
interface Changes {
  readonly lost: readonly LostRanks[];
  /** What broke between ranks that are still there. */
  readonly breaks: readonly string[];
  /** The ranks that have come, by the numbers that they were started with. */
  readonly come: readonly number[];
  /** The number of ranks with which the generation began. Those with greater numbers are in nobody's place. */
  readonly atFirst: number;
}

/** Says why other ranks go on: who is lost, what broke, and who has come. Returns an empty text if nothing changed. */
export function changeReason({ lost, breaks, come, atFirst }: Changes): string {
  const gone = lost.map(({ numbers, end }) => {
    const ranks = numbers.length === 1 ? 'Rank' : 'Ranks';
    const were = numbers.length === 1 ? 'was' : 'were';
    return `${ranks} ${numbers.join(', ')} ${were} lost: ${describeEnd(end)}`;
  });
  const where = come.every((number) => number < atFirst) ? ' in the place of lost ones' : '';
  const joined =
    come.length === 0
      ? []
      : [`${come.length === 1 ? 'Rank' : 'Ranks'} ${come.join(', ')} came${where}`];
  return [...gone, ...new Set(breaks), ...joined].join('. ').replace(/\.$/, '');
}

/** Says in one line who goes on, and from where. */
export function changeText({ worldSize, step, reason, waiting }: MembershipChange): string {
  const ranks = worldSize === 1 ? '1 rank goes on' : `${worldSize} ranks go on`;
  const from = step === undefined ? '' : ` after step ${step}`;
  const others =
    waiting.length === 0
      ? ''
      : ` ${waiting.length === 1 ? 'Rank' : 'Ranks'} ${waiting.join(', ')} ${waiting.length === 1 ? 'waits' : 'wait'} for the rest of a replica.`;
  return `${reason}. ${ranks}${from}.${others}`;
}
