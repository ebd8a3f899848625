import type { PageModel } from '../page-models.ts';

/**
 * The number of ranks of each contestant: one rank, two that train one model by DDP, and two that each train a model
 * and do not communicate.
 */
export const contestants = { one: 1, together: 2, apart: 2 } as const;
export type ContestantName = keyof typeof contestants;

/** What a page is asked to measure. */
export interface TurnsTask {
  readonly model: Extract<PageModel, { kind: 'gpt' }>;
  /** The number of rounds, including the first one, which does not count. */
  readonly rounds: number;
  /** The number of steps of a round. */
  readonly steps: number;
}

/** The data that the page gives to a rank. */
export interface RankTask {
  readonly contestant: ContestantName;
  readonly model: TurnsTask['model'];
  readonly steps: number;
}

/** The message of the page to the ranks of a contestant, on the channel with the contestant's name. */
export type RankOrder = 'round' | 'close';

/** What a rank measured in a round. */
export interface RankTurn {
  readonly msPerStep: number;
  readonly losses: readonly number[];
}

/** The measurements of every rank in every round, by contestant. */
export interface PageTurns {
  readonly browser: string;
  readonly transport: string;
  readonly turns: Readonly<Record<ContestantName, readonly (readonly RankTurn[])[]>>;
}
