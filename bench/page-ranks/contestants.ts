import type { PageModel } from '../page-models.ts';

/** Who takes turns: one rank, two that train one model by DDP, and two that train a model each and do not communicate. */
export const contestants = { one: 1, together: 2, apart: 2 } as const;
export type ContestantName = keyof typeof contestants;

/** What a page is asked to measure. */
export interface TurnsTask {
  readonly model: Extract<PageModel, { kind: 'gpt' }>;
  /** The first one, which does not count, too. */
  readonly rounds: number;
  /** Of a round. */
  readonly steps: number;
}

/** What the page gives to a rank. */
export interface RankTask {
  readonly contestant: ContestantName;
  readonly model: TurnsTask['model'];
  readonly steps: number;
}

/** What the page tells the ranks of a contestant, on the channel of its name. */
export type RankOrder = 'round' | 'close';

/** What a rank measured in a round. */
export interface RankTurn {
  readonly msPerStep: number;
  readonly losses: readonly number[];
}

/** By contestant: its rounds, each with what every rank measured. */
export interface PageTurns {
  readonly browser: string;
  readonly transport: string;
  readonly turns: Readonly<Record<ContestantName, readonly (readonly RankTurn[])[]>>;
}
