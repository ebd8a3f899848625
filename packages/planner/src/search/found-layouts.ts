import { predict, type Prediction } from '../cost/predict.ts';
import { layoutText, ranksOf, type RunLayout } from '../cost/run-layout.ts';
import type { Goal, SearchRequest } from './search-request.ts';

/** Layouts that were left out for one reason. */
export interface PrunedLayouts {
  readonly reason: string;
  readonly count: number;
  /** One of them. */
  readonly example: string;
}

/** What a search has found. */
export interface SearchResult {
  /** The layouts that fit, the best first. Empty if nothing fits. */
  readonly ranked: readonly Prediction[];
  /** The number of layouts that fit. */
  readonly fitting: number;
  readonly pruned: readonly PrunedLayouts[];
  /** The layout that needs least memory, whether it fits or not. */
  readonly smallest: Prediction | null;
}

/** The layouts that a search has found. */
export class FoundLayouts {
  readonly #request: SearchRequest;
  #best: Prediction[] = [];
  #fitting = 0;
  #smallest: { readonly bytes: number; readonly prediction: () => Prediction } | null = null;
  readonly #pruned = new Map<string, { count: number; readonly example: string }>();

  constructor(request: SearchRequest) {
    this.#request = request;
  }

  add(prediction: Prediction): void {
    this.#fitting++;
    this.#consider(prediction.memory.totalBytes, () => prediction);
    this.#best.push(prediction);
    // Sorting all layouts at the end would keep all of them until then.
    if (this.#best.length > 50 * this.#request.keep) this.#best = this.#ranked();
  }

  tooLarge(bytes: number, layout: RunLayout, { model, workload, cluster }: SearchRequest): void {
    this.#consider(bytes, () => predict(model, layout, workload, cluster));
    this.prune('it needs more memory than a rank has', () => layoutText(layout));
  }

  prune(reason: string, example: () => string): void {
    const known = this.#pruned.get(reason);
    if (known === undefined) this.#pruned.set(reason, { count: 1, example: example() });
    else known.count++;
  }

  result(): SearchResult {
    const ranked = this.#ranked();
    const slower = this.#fitting - ranked.length;
    const last = ranked.at(-1);
    if (slower > 0 && last !== undefined) {
      const reason = { time: 'slower', memory: 'larger', money: 'dearer' }[this.#request.goal];
      this.#pruned.set(`it fits, and is ${reason} than those that are shown`, {
        count: slower,
        example: `those after ${layoutText(last.layout)}`,
      });
    }
    return {
      ranked,
      fitting: this.#fitting,
      pruned: [...this.#pruned]
        .map(([reason, { count, example }]) => ({ reason, count, example }))
        .toSorted((a, b) => b.count - a.count),
      smallest: this.#smallest?.prediction() ?? null,
    };
  }

  #consider(bytes: number, prediction: () => Prediction): void {
    if (this.#smallest === null || bytes < this.#smallest.bytes)
      this.#smallest = { bytes, prediction };
  }

  #ranked(): Prediction[] {
    return this.#best.toSorted(orders[this.#request.goal]).slice(0, this.#request.keep);
  }
}

const byTime = (a: Prediction, b: Prediction): number => a.stepSeconds - b.stepSeconds;
const byMemory = (a: Prediction, b: Prediction): number =>
  a.memory.totalBytes - b.memory.totalBytes;

const orders: Readonly<Record<Goal, (a: Prediction, b: Prediction) => number>> = {
  time: (a, b) => byTime(a, b) || byMemory(a, b),
  memory: (a, b) => byMemory(a, b) || byTime(a, b),
  money: (a, b) => deviceSeconds(a) - deviceSeconds(b) || byTime(a, b),
};

/** The time of all devices together. Their price is the same for each second. */
function deviceSeconds({ layout, stepSeconds }: Prediction): number {
  return stepSeconds * ranksOf(layout);
}
