import { ConfigError, fromData, Generator, type Tensor } from '@shardwise/core';

/** PyTorch's PowerSGDState, with its defaults. */
export interface PowerSgdOptions {
  /** Columns of the factors; a larger one is more exact and sends more. Default: 1. */
  readonly matrixApproximationRank?: number;
  /** Steps that average in full first; more than 1 with error feedback or warm start. Default: 1000. */
  readonly startIteration?: number;
  /** A gradient is compressed if its factors have fewer elements by this factor. Default: 2. */
  readonly minCompressionRate?: number;
  /** What compression lost is added to the next gradient. Costs the bytes of one gradient. Default: true. */
  readonly useErrorFeedback?: boolean;
  /** Each step begins with the last one's factor instead of a random one. Default: true. */
  readonly warmStart?: boolean;
  /** Is added to the norms of columns. Default: 0. */
  readonly orthogonalizationEpsilon?: number;
  /** Of the first factors, the same on all ranks. Default: 0. */
  readonly seed?: number;
}

/** A gradient as a matrix, with what is kept of it between steps. */
export interface CompressedGradient {
  /** With what earlier steps have left out. Shape: [N, M]. */
  readonly matrix: Tensor;
  /** Shape: [M, K]. */
  readonly factor: Tensor;
  /** For the next step: what this one leaves out, and its factor. Shapes: [N, M], [M, K]. */
  readonly keep: (error: Tensor, factor: Tensor) => void;
}

/** What PowerSGD keeps of a model's gradients. */
export class PowerSgdState {
  readonly orthogonalizationEpsilon: number;
  readonly #options: Required<PowerSgdOptions>;
  readonly #random: Generator;
  readonly #factors = new Map<Tensor, Tensor>();
  readonly #errors = new Map<Tensor, Tensor>();
  #iteration = 0;

  /** Throws ConfigError for options out of range. */
  constructor(options: PowerSgdOptions) {
    this.#options = {
      matrixApproximationRank: 1,
      startIteration: 1000,
      minCompressionRate: 2,
      useErrorFeedback: true,
      warmStart: true,
      orthogonalizationEpsilon: 0,
      seed: 0,
      ...options,
    };
    checkOptions(this.#options);
    this.orthogonalizationEpsilon = this.#options.orthogonalizationEpsilon;
    this.#random = new Generator(this.#options.seed);
  }

  /** Whether a bucket of this step is compressed; steps are counted by their last buckets. */
  startsBucket(isLast: boolean): boolean {
    const compresses = this.#iteration >= this.#options.startIteration;
    if (isLast) this.#iteration++;
    return compresses;
  }

  /** Null for a gradient that is not worth it. */
  compress(parameter: Tensor, gradient: Tensor): CompressedGradient | null {
    const { matrixApproximationRank, minCompressionRate } = this.#options;
    const [rows = 1] = gradient.shape;
    const columns = gradient.numel / rows;
    const rank = Math.min(rows, columns, matrixApproximationRank);
    const sent = (rows + columns) * rank;
    const isWorthIt = gradient.ndim > 1 && sent * minCompressionRate < rows * columns;
    if (!isWorthIt || gradient.dtype !== 'f32') return null;
    const error = this.#errorOf(parameter, rows, columns);
    const kept = this.#factorOf(parameter, columns, rank);
    const matrix = gradient.reshape([rows, columns]);
    return {
      matrix: error === null ? matrix : matrix.add(error),
      factor: kept ?? this.#randomFactor(columns, rank),
      keep: (lost, factor) => {
        error?.assign(lost);
        kept?.assign(factor);
      },
    };
  }

  #errorOf(parameter: Tensor, rows: number, columns: number): Tensor | null {
    if (!this.#options.useErrorFeedback) return null;
    const zeros = (): Tensor => fromData(new Float32Array(rows * columns), [rows, columns], 'f32');
    return keptIn(this.#errors, parameter, zeros);
  }

  #factorOf(parameter: Tensor, columns: number, rank: number): Tensor | null {
    if (!this.#options.warmStart) return null;
    return keptIn(this.#factors, parameter, () => this.#randomFactor(columns, rank));
  }

  #randomFactor(columns: number, rank: number): Tensor {
    return fromData(this.#random.randn(columns * rank), [columns, rank], 'f32');
  }
}

function keptIn(kept: Map<Tensor, Tensor>, parameter: Tensor, make: () => Tensor): Tensor {
  const known = kept.get(parameter);
  if (known !== undefined) return known;
  const made = make().makeResident();
  kept.set(parameter, made);
  return made;
}

function checkOptions(options: Required<PowerSgdOptions>): void {
  const { matrixApproximationRank, startIteration, minCompressionRate } = options;
  if (startIteration <= 1 && (options.useErrorFeedback || options.warmStart)) {
    throw new ConfigError(
      {
        asked: `PowerSGD from step ${startIteration} on with error feedback or warm start`,
        found: 'neither works before gradients have been averaged in full',
        todo: 'Use a startIteration of 2 or more, or set useErrorFeedback and warmStart to false',
      },
      { startIteration },
    );
  }
  const wholeRank = Number.isSafeInteger(matrixApproximationRank) && matrixApproximationRank > 0;
  const wholeStart = Number.isSafeInteger(startIteration) && startIteration >= 0;
  if (wholeRank && wholeStart && minCompressionRate > 0) return;
  throw new ConfigError(
    {
      asked: `PowerSGD of rank ${matrixApproximationRank} from step ${startIteration} on, with a compression of at least ${minCompressionRate}`,
      found: 'a rank or a step that is not a whole number, or a compression that is not positive',
      todo: 'Use a matrixApproximationRank of 1 or more, a startIteration of 0 or more, a minCompressionRate above 0',
    },
    { matrixApproximationRank, startIteration, minCompressionRate },
  );
}
