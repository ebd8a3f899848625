/** A product that runs on a device to be measured. */
interface Timed {
  /** Settles when the kernel is compiled. */
  readonly compile: () => Promise<void>;
  /** The milliseconds of some runs, which are waited for together. */
  readonly timeOf: (runs: number) => Promise<number>;
}

/** Two products with one tile: one fills the device, and the other has few groups of threads. */
export interface TimedPair {
  readonly many: Timed;
  readonly few: Timed;
}

/** What the products of a pair take, in milliseconds. */
export interface PairTimes<Pair> {
  readonly pair: Pair;
  readonly manyMs: number;
  readonly fewMs: number;
}

/** More and more runs are waited for together until they take this long, because waiting itself takes time. */
const MIN_MS = 4;
const MAX_TOGETHER = 64;
/** How often each product is measured after all tiles were tried. */
const ROUNDS = 3;
/** Once two tiles were tried and this much time has passed, compilation included, no further tile is tried. */
const MAX_MS = 1500;
/** How long a device computes before it is measured, because an idle one has a lower clock. */
const WARM_UP_MS = 250;
/** After this much time no further round begins. */
const MAX_ROUNDS_MS = 1000;

/**
 * Measures pairs of products, one for each tile. They take turns, so that a device that becomes faster meanwhile does
 * not favour the last one. If it takes long to try all of them, only the first ones are tried.
 */
export async function timeTiles<Pair extends TimedPair>(
  pairs: readonly Pair[],
): Promise<PairTimes<Pair>[]> {
  const start = performance.now();
  const measured: { readonly pair: Pair; readonly many: Stopwatch; readonly few: Stopwatch }[] = [];
  for (const pair of pairs) {
    if (measured.length >= 2 && performance.now() - start > MAX_MS) break;
    await Promise.all([pair.many.compile(), pair.few.compile()]);
    const [many, few] = [new Stopwatch(pair.many), new Stopwatch(pair.few)];
    await many.begin();
    await few.begin();
    measured.push({ pair, many, few });
  }
  const tried = performance.now();
  const [first] = measured;
  if (first === undefined) return [];
  while (performance.now() - tried < WARM_UP_MS) await first.many.measure();
  for (let round = 0; round < ROUNDS; round++) {
    if (performance.now() - tried > MAX_ROUNDS_MS) break;
    for (const { many, few } of measured) {
      await many.measure();
      await few.measure();
    }
  }
  return measured.map(({ pair, many, few }) => ({
    pair,
    manyMs: many.leastMs,
    fewMs: few.leastMs,
  }));
}

/** The least time of a run of a product. */
class Stopwatch {
  readonly #product: Timed;
  #together = 1;
  leastMs = Infinity;

  constructor(product: Timed) {
    this.#product = product;
  }

  /** Finds out how many runs have to be waited for together, and measures for the first time. */
  async begin(): Promise<void> {
    await this.measure();
    while (this.leastMs * this.#together < MIN_MS && this.#together < MAX_TOGETHER) {
      this.#together *= 4;
      await this.measure();
    }
  }

  async measure(): Promise<void> {
    const ms = (await this.#product.timeOf(this.#together)) / this.#together;
    this.leastMs = Math.min(this.leastMs, ms);
  }
}
