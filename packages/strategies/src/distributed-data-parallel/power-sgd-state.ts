import {
  checkOptions,
  CheckpointError,
  ConfigError,
  elementCount,
  formatShape,
  fromData,
  Generator,
  type GeneratorState,
  type HostArray,
  hostArray,
  type HostArrays,
  option,
  type OptionRules,
  sameShape,
  type Shape,
  type Tensor,
  withDefaults,
} from '@shardwise/core/extend';

/** Options of `powerSgdHook`, with the defaults of PyTorch's PowerSGDState. */
export interface PowerSgdOptions {
  /** The number of columns of the factors. More columns are more exact and need more bytes. Default: 1. */
  readonly matrixApproximationRank?: number;
  /**
   * The number of steps that average gradients without compression first. It must be more than 1 with error
   * feedback or warm start. Default: 1000.
   */
  readonly startIteration?: number;
  /** A gradient is compressed if its factors have fewer elements by this factor. Default: 2. */
  readonly minCompressionRate?: number;
  /**
   * Whether the error of the compression is added to the next gradient. This takes the bytes of one gradient.
   * Default: true.
   */
  readonly useErrorFeedback?: boolean;
  /** Whether each step begins with the factor of the last step instead of a random one. Default: true. */
  readonly warmStart?: boolean;
  /** A number that is added to the norms of columns. Default: 0. */
  readonly orthogonalizationEpsilon?: number;
  /** The seed of the first factors, the same on all ranks. Default: 0. */
  readonly seed?: number;
}

/** The state of PowerSGD on the host. Errors belong to this rank. */
export interface PowerSgdStateDict {
  readonly iteration: number;
  readonly random: GeneratorState;
  /** The factors, by the names of parameters. Shapes: [M, K]. */
  readonly factors: HostArrays;
  /** The errors of the compression, by the names of parameters. Shapes: [N, M]. */
  readonly errors: HostArrays;
}

const optionRules: OptionRules<PowerSgdOptions> = {
  matrixApproximationRank: option.number,
  startIteration: option.number,
  minCompressionRate: option.number,
  useErrorFeedback: option.flag,
  warmStart: option.flag,
  orthogonalizationEpsilon: option.nonNegative,
  seed: option.count,
};

const defaults: Required<PowerSgdOptions> = {
  matrixApproximationRank: 1,
  startIteration: 1000,
  minCompressionRate: 2,
  useErrorFeedback: true,
  warmStart: true,
  orthogonalizationEpsilon: 0,
  seed: 0,
};

/** A gradient as a matrix, with the state that is kept of it between steps. */
export interface CompressedGradient {
  /** The gradient plus the error that earlier steps have left. Shape: [N, M]. */
  readonly matrix: Tensor;
  /** The second factor, Q. Shape: [M, K]. */
  readonly factor: Tensor;
  /** Keeps the error and the factor of this step for the next one. Shapes: [N, M], [M, K]. */
  readonly keep: (error: Tensor, factor: Tensor) => void;
}

/** The state of PowerSGD for the gradients of a model. */
export class PowerSgdState {
  readonly orthogonalizationEpsilon: number;
  readonly #options: Required<PowerSgdOptions>;
  readonly #random: Generator;
  readonly #factors = new Map<string, Tensor>();
  readonly #errors = new Map<string, Tensor>();
  #iteration = 0;

  /** Throws ConfigError for options out of range. */
  constructor(options: PowerSgdOptions) {
    checkOptions('powerSgdHook', options, optionRules);
    this.#options = withDefaults(defaults, options);
    checkRanges(this.#options);
    this.orthogonalizationEpsilon = this.#options.orthogonalizationEpsilon;
    this.#random = new Generator(this.#options.seed);
  }

  /** Returns whether the buckets of this step are compressed. The last bucket of a step counts the step. */
  startsBucket(isLast: boolean): boolean {
    const compresses = this.#iteration >= this.#options.startIteration;
    if (isLast) this.#iteration++;
    return compresses;
  }

  async read(): Promise<PowerSgdStateDict> {
    return {
      iteration: this.#iteration,
      random: this.#random.getState(),
      factors: await readAll(this.#factors),
      errors: await readAll(this.#errors),
    };
  }

  /** Throws CheckpointError before anything changes. Wrong shapes are found when they are needed. */
  load({ iteration, random, factors, errors }: PowerSgdStateDict): void {
    if (!Number.isSafeInteger(iteration) || iteration < 0) throw unfit(`step ${iteration}`);
    const [loadedFactors, loadedErrors] = [tensorsOf(factors), tensorsOf(errors)];
    this.#random.setState(random);
    this.#iteration = iteration;
    for (const [kept, loaded] of [
      [this.#factors, loadedFactors],
      [this.#errors, loadedErrors],
    ] as const) {
      for (const tensor of kept.values()) tensor.dispose();
      kept.clear();
      for (const [name, tensor] of loaded) kept.set(name, tensor);
    }
  }

  /** Returns a gradient as a matrix, or null if its factors would not be much smaller. */
  compress(name: string, gradient: Tensor): CompressedGradient | null {
    const { matrixApproximationRank, minCompressionRate } = this.#options;
    const [rows = 1] = gradient.shape;
    const columns = gradient.numel / rows;
    const rank = Math.min(rows, columns, matrixApproximationRank);
    const sent = (rows + columns) * rank;
    const isWorthIt = gradient.ndim > 1 && sent * minCompressionRate < rows * columns;
    if (!isWorthIt || gradient.dtype !== 'f32') return null;
    const error = this.#errorOf(name, rows, columns);
    const kept = this.#factorOf(name, columns, rank);
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

  #errorOf(name: string, rows: number, columns: number): Tensor | null {
    if (!this.#options.useErrorFeedback) return null;
    const zeros = (): Tensor => fromData(new Float32Array(rows * columns), [rows, columns], 'f32');
    return keptIn(this.#errors, name, [rows, columns], zeros);
  }

  #factorOf(name: string, columns: number, rank: number): Tensor | null {
    if (!this.#options.warmStart) return null;
    const random = (): Tensor => this.#randomFactor(columns, rank);
    return keptIn(this.#factors, name, [columns, rank], random);
  }

  #randomFactor(columns: number, rank: number): Tensor {
    return fromData(this.#random.randn(columns * rank), [columns, rank], 'f32');
  }
}

function keptIn(kept: Map<string, Tensor>, name: string, shape: Shape, make: () => Tensor): Tensor {
  const known = kept.get(name) ?? make().makeResident();
  if (!sameShape(known.shape, shape)) {
    throw unfit(`${name} of shape ${formatShape(known.shape)}, not ${formatShape(shape)}`);
  }
  kept.set(name, known);
  return known;
}

async function readAll(kept: ReadonlyMap<string, Tensor>): Promise<HostArrays> {
  const arrays: Record<string, HostArray> = {};
  for (const [name, tensor] of kept) {
    const { dtype, shape } = tensor;
    const bytes = new Uint8Array(Float32Array.from(await tensor.data(), Number).buffer);
    arrays[name] = hostArray(dtype, shape, bytes);
  }
  return arrays;
}

function tensorsOf(arrays: HostArrays): readonly (readonly [name: string, tensor: Tensor])[] {
  return Object.entries(arrays).map(([name, { dtype, shape, bytes }]) => {
    if (dtype !== 'f32' || bytes.byteLength !== elementCount(shape) * 4) {
      throw unfit(`${name} as ${dtype} ${formatShape(shape)} in ${bytes.byteLength} bytes`);
    }
    const values = new Float32Array(bytes.slice().buffer);
    return [name, fromData(values, shape, 'f32').makeResident()];
  });
}

function unfit(found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: 'to go on with a saved state of PowerSGD',
      found,
      todo: 'Load the result of stateDict() of a hook with the same options and model',
    },
    { found },
  );
}

function checkRanges(options: Required<PowerSgdOptions>): void {
  const { matrixApproximationRank, startIteration, minCompressionRate } = options;
  if (startIteration <= 1 && (options.useErrorFeedback || options.warmStart)) {
    throw new ConfigError(
      {
        asked: `PowerSGD from step ${startIteration} on with error feedback or warm start`,
        found: 'neither works before steps that average gradients without compression',
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
