/** A row that beam search keeps, with the sum of the log-probabilities of its new tokens. */
interface Beam {
  readonly added: readonly number[];
  readonly score: number;
  /** The number of the beam that it continues. */
  readonly from: number;
}

export interface BeamSettings {
  readonly numBeams: number;
  readonly lengthPenalty: number;
  /** Whether the search ends as soon as `numBeams` rows have ended. Otherwise it ends when no other can be better. */
  readonly earlyStopping: boolean;
  /** The number of tokens that end a row. More of them need more candidates. */
  readonly endTokens: number;
  readonly maxNewTokens: number;
  /** Whether a row ends with its last token. */
  readonly hasEnded: (added: readonly number[]) => boolean;
}

/** The next tokens of all beams of a prompt, and the beams that they continue. */
export interface BeamStep {
  readonly tokens: readonly number[];
  readonly from: readonly number[];
}

/**
 * Beam search of one prompt, as transformers has it with early_stopping=False or True: it ends when no running row,
 * divided by its present length, has a better score than the worst of the rows that have ended, or with the latter as soon
 * as enough rows have ended.
 */
export class BeamSearch {
  readonly #settings: BeamSettings;
  /** The running rows, the best first. At first, all but one are excluded, because all are the same. */
  #running: readonly Beam[];
  /** The rows that have ended, the best first, with scores that are divided by their lengths. */
  #finished: readonly Beam[] = [];
  #length = 0;
  #isDone = false;

  constructor(settings: BeamSettings) {
    this.#settings = settings;
    this.#running = Array.from({ length: settings.numBeams }, (_, from) => ({
      added: [],
      score: from === 0 ? 0 : Number.NEGATIVE_INFINITY,
      from,
    }));
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** The new tokens of the running rows. */
  get running(): readonly (readonly number[])[] {
    return this.#running.map(({ added }) => added);
  }

  /** The new tokens of the rows that have ended, the best first, and behind them those of the running rows. */
  get rows(): readonly (readonly number[])[] {
    const running = this.#running.filter(({ score }) => score > Number.NEGATIVE_INFINITY);
    const all = this.#isDone ? this.#finished : [...this.#finished, ...running];
    return (all.length > 0 ? all : running).map(({ added }) => added);
  }

  /** Takes the log-probabilities of the next token of each running row. Shape: numBeams arrays of [V]. */
  advance(logProbabilities: readonly Float32Array[]): BeamStep {
    const { numBeams, lengthPenalty, earlyStopping, endTokens, maxNewTokens, hasEnded } =
      this.#settings;
    const candidates = bestContinuations(
      this.#running,
      logProbabilities,
      Math.max(2, 1 + endTokens) * numBeams,
    );
    this.#length++;
    const all = candidates.map((beam) => ({ beam, ended: hasEnded(beam.added) }));
    // Only the best candidates may end; the others are there so that enough rows go on.
    const newlyFinished = all
      .slice(0, numBeams)
      .flatMap(({ beam, ended }) =>
        ended ? [{ ...beam, score: beam.score / this.#length ** lengthPenalty }] : [],
      );
    this.#finished = [...this.#finished, ...newlyFinished]
      .toSorted((a, b) => b.score - a.score)
      .slice(0, numBeams);
    const goingOn = all.flatMap(({ beam, ended }) => (ended ? [] : [beam])).slice(0, numBeams);
    const [first] = goingOn;
    const worst =
      this.#finished.length < numBeams
        ? Number.NEGATIVE_INFINITY
        : (this.#finished.at(-1)?.score ?? Number.NEGATIVE_INFINITY);
    const canImprove = first !== undefined && first.score / this.#length ** lengthPenalty > worst;
    const hasEnough = earlyStopping && this.#finished.length >= numBeams;
    this.#isDone = this.#length >= maxNewTokens || hasEnough || !canImprove;
    const filled = Array.from({ length: numBeams }, (_, index) => goingOn[index] ?? first);
    const next = filled.flatMap((beam) => beam ?? []);
    if (next.length > 0) this.#running = next;
    return {
      tokens: this.#running.map(({ added }) => added.at(-1) ?? 0),
      from: this.#running.map(({ from }) => from),
    };
  }
}

/** The continuations with the best sums, the best first. Of equal ones, the first one comes first. */
function bestContinuations(
  running: readonly Beam[],
  logProbabilities: readonly Float32Array[],
  count: number,
): readonly Beam[] {
  const best: { readonly score: number; readonly from: number; readonly token: number }[] = [];
  for (const [from, { score: before }] of running.entries()) {
    for (const [token, logProbability] of (logProbabilities[from] ?? []).entries()) {
      const score = Math.fround(before + logProbability);
      const last = best.at(-1);
      if (best.length === count && last !== undefined && score <= last.score) continue;
      let at = best.length;
      while (at > 0 && (best[at - 1]?.score ?? 0) < score) at--;
      best.splice(at, 0, { score, from, token });
      if (best.length > count) best.pop();
    }
  }
  return best.map(({ score, from, token }) => ({
    score,
    from,
    added: [...(running[from]?.added ?? []), token],
  }));
}
