import { traceCallSites } from '../graph/create-node.ts';
import type { Subgraph } from './collect.ts';
import type { Part } from './plan-difference.ts';

/** A run that finds a plan makes up for a part of one that makes one: programs have runs of several kinds. */
const foundShare = 1 / 4;

/**
 * The most programs that are compared in search of one that differs from the one before it on a line of the
 * user's code.
 */
const mostComparisons = 8;

/**
 * Notices that about every run makes a plan, as with a size that is another one in each step, and says once on
 * which line of the program that is. Call sites are traced for as long as runs make plans.
 */
export class PlanChurn {
  readonly #limit: number;
  readonly #warn: (message: string) => void;
  /** Plans made, less those found by their share. */
  #surplus = 0;
  #comparisons = 0;
  /** The program of the latest run for which a plan was made. */
  #previous: readonly Part[] | null = null;

  /** Warns once `limit` plans have been made that are not used again. */
  constructor(limit: number, warn: (message: string) => void) {
    this.#limit = limit;
    this.#warn = warn;
  }

  /** A run found its plan. */
  found(): void {
    this.#surplus = Math.max(0, this.#surplus - foundShare);
    traceCallSites(this.#isSuspicious);
  }

  /** To be called when a plan was made for a run. */
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
    this.#comparisons = mostComparisons;
    this.#previous = null;
    this.#warn(messageOf(difference));
  }

  get #isSuspicious(): boolean {
    return this.#surplus >= this.#limit && this.#comparisons < mostComparisons;
  }
}
