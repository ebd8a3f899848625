/** So many of the last steps are looked at. */
const REMEMBERED = 33;
/** A prompt goes on by at least so many tokens in a step, whatever they take. A chunk has a multiple of them. */
const LEAST_TOKENS = 8;

/** What a step had, and how long it took. */
interface StepTime {
  /** The number of sequences with a single token. */
  readonly singles: number;
  /** The number of tokens of the chunk of a prompt. 0: it had none. */
  readonly chunkTokens: number;
  readonly ms: number;
}

/** What steps take: some time for each, because it reads the weights, and some for each of its tokens. */
interface StepCosts {
  readonly stepMs: number;
  readonly tokenMs: number;
}

/**
 * Chooses how many tokens of a prompt a step computes beside sequences that wait for their next tokens, so that these do not
 * wait much longer than in a step without the chunk. It knows what the last steps took. Texts do not depend on its choice.
 */
export class ChunkBudget {
  readonly #maxChunkTokens: number;
  readonly #maxStepRatio: number;
  readonly #steps: StepTime[] = [];
  #costs: StepCosts | null = null;

  /** A step with a chunk is to take at most `maxStepRatio` times as long as one with the same sequences and no chunk. */
  constructor(maxChunkTokens: number, maxStepRatio: number) {
    this.#maxChunkTokens = maxChunkTokens;
    this.#maxStepRatio = maxStepRatio;
  }

  /** The most tokens of a chunk beside single tokens of so many sequences. */
  tokensBeside(singles: number): number {
    // Before anything is known, nothing is bounded.
    if (this.#steps.length === 0 || this.#maxStepRatio === Infinity) return this.#maxChunkTokens;
    this.#costs ??= costsOf(this.#steps);
    const least = Math.min(LEAST_TOKENS, this.#maxChunkTokens);
    if (this.#costs === null) return least;
    const { stepMs, tokenMs } = this.#costs;
    const fitting = ((this.#maxStepRatio - 1) * (stepMs + tokenMs * singles)) / tokenMs;
    // Also if it is no number, because tokens took no time.
    if (!(fitting < this.#maxChunkTokens)) return this.#maxChunkTokens;
    return Math.max(least, Math.floor(fitting / LEAST_TOKENS) * LEAST_TOKENS);
  }

  /** Notes what a step took. */
  note(step: StepTime): void {
    this.#steps.push(step);
    if (this.#steps.length > REMEMBERED) this.#steps.shift();
    this.#costs = null;
  }
}

/**
 * The line through the times of steps by their tokens whose slope is the median of those between all pairs (Theil and Sen), so
 * that single steps that compiled something have no influence. Null if all steps had the same number of tokens.
 */
function costsOf(steps: readonly StepTime[]): StepCosts | null {
  const points = steps.map(({ singles, chunkTokens, ms }) => ({
    tokens: singles + chunkTokens,
    ms,
  }));
  const slopes = points.flatMap((one, index) =>
    points
      .slice(index + 1)
      .filter(({ tokens }) => tokens !== one.tokens)
      .map((other) => (other.ms - one.ms) / (other.tokens - one.tokens)),
  );
  if (slopes.length === 0) return null;
  // More tokens never take less time: then other things took it.
  const tokenMs = Math.max(0, medianOf(slopes));
  const stepMs = Math.max(0, medianOf(points.map(({ tokens, ms }) => ms - tokenMs * tokens)));
  return { stepMs, tokenMs };
}

function medianOf(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
