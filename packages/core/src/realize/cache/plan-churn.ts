import { traceCallSites } from '../../graph/create-node.ts';
import type { Subgraph } from '../collect/collect.ts';
import type { Part } from './plan-difference.ts';

/** A found plan counts as this part of a made plan, less than 1, because programs have runs of several kinds. */
const FOUND_SHARE = 1 / 4;

/**
 * The most programs that are compared with the one before, to find a difference that has a line of the user's code.
 */
const MAX_COMPARISONS = 8;

/**
 * Notices when nearly every run makes a plan, for example because a size changes in each step. It then warns once, and
 * names the line of the program that is the cause. Call sites are traced as long as runs make plans.
 */
export class PlanChurn {
  readonly #limit: number;
  readonly #warn: (message: string) => void;
  /** The number of plans made, less `foundShare` for each plan that was found. It is not below 0. */
  #surplus = 0;
  #comparisons = 0;
  /** The program of the latest run for which a plan was made. */
  #previous: readonly Part[] | null = null;

  /** Warns when the surplus of made plans reaches `limit`. */
  constructor(limit: number, warn: (message: string) => void) {
    this.#limit = limit;
    this.#warn = warn;
  }

  /** Call this when a run has found its plan. */
  found(): void {
    this.#surplus = Math.max(0, this.#surplus - FOUND_SHARE);
    traceCallSites(this.#isSuspicious);
  }

  /** Call this when a plan was made for a run. */
  async made(subgraph: Subgraph): Promise<void> {
    traceCallSites(true);
    this.#surplus++;
    if (!this.#isSuspicious) return;
    const { firstDifference, messageOf, partOf } = await import('./plan-difference.ts');
    const parts = [...subgraph.leaves, ...subgraph.computed].map(partOf);
    const previous = this.#previous;
    this.#previous = parts;
    if (previous === null) return;
    this.#comparisons++;
    const difference = firstDifference(previous, parts);
    if (difference === null && this.#isSuspicious) return;
    this.#comparisons = MAX_COMPARISONS;
    this.#previous = null;
    this.#warn(messageOf(difference));
  }

  get #isSuspicious(): boolean {
    return this.#surplus >= this.#limit && this.#comparisons < MAX_COMPARISONS;
  }
}
