import { traceCallSites } from '../graph/create-node.ts';
import type { CallSite } from '../graph/call-site.ts';
import { none, type Node } from '../graph/node.ts';
import { formatShape } from '../shape.ts';
import type { Subgraph } from './collect.ts';
import { structureKey } from './structure-key.ts';

/** A run that finds a plan makes up for a part of one that makes one: programs have runs of several kinds. */
const foundShare = 1 / 4;

/**
 * The most programs that are compared in search of one that differs from the one before it on a line of the
 * user's code.
 */
const mostComparisons = 8;

/** A node of a program as the next one is compared with it. */
interface Part {
  readonly op: string;
  /** Parameters and shape. */
  readonly text: string;
  readonly site: CallSite | null;
}

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
  made(subgraph: Subgraph): void {
    traceCallSites(true);
    this.#surplus++;
    if (!this.#isSuspicious) return;
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

function partOf({ op, params, shape, site }: Node): Part {
  const isPlain = op === 'input' || op === 'constant' || params === none;
  const text = isPlain ? '' : `${structureKey(params).replaceAll(/,(?=[}\]])/g, '')} `;
  return { op, text: `${text}of shape ${formatShape(shape)}`, site };
}

interface Difference {
  readonly before: Part;
  readonly now: Part;
  readonly line: string;
}

/** The first part on a line of the user's that differs, of programs of the same operations. */
function firstDifference(before: readonly Part[], now: readonly Part[]): Difference | null {
  const same = before.length === now.length && now.every(({ op }, at) => op === before[at]?.op);
  if (!same) return null;
  for (const [index, part] of now.entries()) {
    const { [index]: other } = before;
    if (other === undefined || part.text === other.text) continue;
    const line = part.site?.line ?? null;
    if (line !== null) return { before: other, now: part, line };
  }
  return null;
}

function messageOf(difference: Difference | null): string {
  const what =
    difference === null
      ? 'their operations or sizes differ'
      : `${difference.line} makes ${describe(difference.now)} where the run before had ${describe(difference.before)}`;
  return `nearly every run makes a plan and compiles it, which takes far longer than to run it: ${what}. Pad batches to one of a few sizes, and write numbers that change as operands (x.mul(rate)) or as tensors. statistics().plansMade counts plans.`;
}

function describe({ op, text }: Part): string {
  return op === 'input' || op === 'constant' ? `a tensor ${text}` : `${op} ${text}`;
}
