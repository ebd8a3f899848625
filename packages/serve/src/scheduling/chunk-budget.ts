/** So many of the last times of each kind are looked at. Their median ignores single steps that compiled something. */
const REMEMBERED = 33;
/** A prompt goes on by at least so many tokens in a step, whatever they take. */
const LEAST_TOKENS = 8;

/** What a step had, and how long it took. */
interface StepTime {
  /** The number of sequences with a single token. */
  readonly singles: number;
  /** The number of tokens of the chunk of a prompt. 0: it had none. */
  readonly chunkTokens: number;
  readonly ms: number;
}

/**
 * Chooses how many tokens of a prompt a step computes beside sequences that wait for their next tokens, so that these do not
 * wait much longer than usual. It knows what steps took: those without a chunk, and for each token of a chunk what a step took
 * longer. Texts do not depend on its choice.
 */
export class ChunkBudget {
  readonly #maxChunkTokens: number;
  readonly #maxStepRatio: number;
  /** Milliseconds of steps without a chunk. */
  readonly #plain: number[] = [];
  /** Milliseconds that each token of a chunk added to a step. */
  readonly #perToken: number[] = [];

  /** A step with a chunk is to take at most `maxStepRatio` times as long as one without. */
  constructor(maxChunkTokens: number, maxStepRatio: number) {
    this.#maxChunkTokens = maxChunkTokens;
    this.#maxStepRatio = maxStepRatio;
  }

  /** The most tokens of a chunk beside single tokens: the limit, or a power of two below it. */
  get tokens(): number {
    const plain = medianOf(this.#plain);
    // Before anything is known, nothing is bounded.
    if (plain === undefined) return this.#maxChunkTokens;
    const perToken = medianOf(this.#perToken);
    const fitting =
      perToken === undefined ? LEAST_TOKENS : ((this.#maxStepRatio - 1) * plain) / perToken;
    // Also if it is no number, because neither took any time.
    if (!(fitting < this.#maxChunkTokens)) return this.#maxChunkTokens;
    const power = 2 ** Math.floor(Math.log2(Math.max(fitting, LEAST_TOKENS)));
    return Math.min(this.#maxChunkTokens, power);
  }

  /** Notes what a step took. Steps of a prompt alone say nothing about how long others wait. */
  note({ singles, chunkTokens, ms }: StepTime): void {
    if (singles === 0) return;
    if (chunkTokens === 0) {
      remember(this.#plain, ms);
      return;
    }
    const plain = medianOf(this.#plain);
    if (plain === undefined) return;
    // A step is never shorter with a chunk than without: then other things took the time.
    remember(this.#perToken, Math.max(0, ms - plain) / chunkTokens);
  }
}

function remember(times: number[], ms: number): void {
  times.push(ms);
  if (times.length > REMEMBERED) times.shift();
}

function medianOf(times: readonly number[]): number | undefined {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)];
}
