import { Generator } from '@shardwise/core/extend';

/** How the ranks of a program lie. The names of axes are those of strategies. */
type MeshKind = 'dp' | 'tp' | 'dp × tp' | 'pp';

const strategiesOf = {
  dp: ['ddp', 'zero 1', 'zero 2', 'zero 3', 'fsdp', 'fsdp that keeps', 'fsdp in one unit'],
  tp: ['tensor parallel', 'sequence parallel'],
  'dp × tp': ['ddp', 'zero 1', 'zero 3', 'fsdp', 'tensor parallel', 'fsdp of tensor parallel'],
  pp: ['pipeline'],
} as const satisfies Readonly<Record<MeshKind, readonly string[]>>;

type StrategyName = (typeof strategiesOf)[MeshKind][number];

export interface ModelSpec {
  readonly strategy: StrategyName;
  /** Whether blocks are checkpointed. */
  readonly checkpointed: boolean;
  /** Whether the first tower is frozen. */
  readonly frozen: boolean;
  readonly dropout: boolean;
  readonly learningRate: number;
}

const operations = ['allReduce', 'mean', 'allGather', 'broadcast', 'reduceScatter'] as const;

/** A statement of a program. `value` is the number of the value that it makes. */
export type Statement =
  | {
      readonly kind: 'collective';
      readonly operation: (typeof operations)[number];
      readonly value: number;
      readonly input: number;
    }
  | {
      readonly kind: 'forward';
      readonly model: number;
      readonly grad: boolean;
      readonly batch: number;
      /** The values of the outputs of both towers, and of the loss of them. */
      readonly values: readonly [number, number, number];
    }
  /** Adds gradients of the loss of an earlier forward pass. */
  | { readonly kind: 'backward'; readonly model: number; readonly loss: number }
  | {
      readonly kind: 'step';
      readonly model: number;
      readonly awaited: boolean;
      readonly clip: number | null;
    }
  | {
      readonly kind: 'parameter';
      readonly model: number;
      readonly index: number;
      readonly value: number;
    }
  | {
      readonly kind: 'gradient';
      readonly model: number;
      /** Whether it is the norm of all gradients. */
      readonly isNorm: boolean;
      readonly index: number;
      readonly value: number;
    }
  /** A call of the group itself, outside of the graph. */
  | { readonly kind: 'group'; readonly value: number }
  /** A run that fails on all ranks, and is caught. */
  | { readonly kind: 'failure' }
  | { readonly kind: 'dispose'; readonly value: number }
  | { readonly kind: 'pause' };

/** What ranks read behind a statement: values, by rank. */
type Reads = readonly (readonly number[])[];

export interface Program {
  readonly seed: number;
  readonly mesh: MeshKind;
  readonly models: readonly ModelSpec[];
  readonly statements: readonly Statement[];
  /** For each statement, what is read behind it. */
  readonly reads: readonly Reads[];
}

class Draw {
  readonly #generator: Generator;

  constructor(seed: number) {
    this.#generator = new Generator(seed);
  }

  below(limit: number): number {
    return this.#generator.random() % limit;
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.#generator.random() < probability * 2 ** 32;
  }

  of<T>(choices: readonly T[]): T {
    const chosen = choices[this.below(choices.length)];
    if (chosen === undefined) throw new RangeError('nothing to choose from');
    return chosen;
  }
}

/**
 * The meshes that a number of ranks can have, each as often as it is drawn. Layers can be divided in two and in four, and
 * the pipeline has two stages.
 */
function meshesOf(ranks: number): readonly MeshKind[] {
  if (ranks === 4) return ['dp', 'dp', 'tp', 'dp × tp', 'dp × tp'];
  return ranks === 2 ? ['dp', 'dp', 'dp', 'tp', 'tp', 'pp'] : ['dp'];
}

/** Makes a random program for a number of ranks. The same seed makes the same program. */
export function randomProgram(seed: number, ranks: number): Program {
  const draw = new Draw(seed);
  const mesh = draw.of<MeshKind>(meshesOf(ranks));
  const models = Array.from({ length: 1 + draw.below(2) }, (): ModelSpec => ({
    strategy: draw.of<StrategyName>(strategiesOf[mesh]),
    checkpointed: draw.chance(0.25),
    frozen: draw.chance(0.2),
    dropout: draw.chance(0.2),
    learningRate: 0.05,
  }));
  let values = 0;
  const statements: Statement[] = [];
  /** The losses of passes that can have a backward pass, by model. */
  const losses: number[][] = models.map(() => []);
  const hasGradient = models.map(() => false);
  const length = 4 + draw.below(12);
  while (statements.length < length) {
    const model = draw.below(models.length);
    const isPipeline = models[model]?.strategy === 'pipeline';
    const kind = draw.below(100);
    if (kind < 22) {
      const operation = draw.of(operations);
      statements.push({ kind: 'collective', operation, value: values++, input: draw.below(1000) });
    } else if (kind < 50) {
      const grad = draw.chance(0.7);
      const [a, b, loss] = [values++, values++, values++];
      statements.push({
        kind: 'forward',
        model,
        grad,
        batch: draw.below(1000),
        values: [a, b, loss],
      });
      // A pipeline computes in its backward pass, and each loss has one.
      if (grad) losses[model]?.push(loss);
      if (grad && (isPipeline || draw.chance(0.75))) {
        statements.push({ kind: 'backward', model, loss });
        hasGradient[model] = true;
        losses[model]?.pop();
      }
    } else if (kind < 58) {
      const loss = losses[model]?.pop();
      if (loss === undefined) continue;
      statements.push({ kind: 'backward', model, loss });
      hasGradient[model] = true;
    } else if (kind < 74) {
      if (!hasGradient[model]) continue;
      const clip = draw.chance(0.25) ? values++ : null;
      statements.push({ kind: 'step', model, awaited: draw.chance(0.7), clip });
      hasGradient[model] = false;
      losses[model] = [];
    } else if (kind < 82) {
      if (isPipeline) continue;
      statements.push({ kind: 'parameter', model, index: draw.below(100), value: values++ });
    } else if (kind < 87) {
      if (!hasGradient[model] || isPipeline) continue;
      const [isNorm, index] = [draw.chance(0.5), draw.below(100)];
      statements.push({ kind: 'gradient', model, isNorm, index, value: values++ });
    } else if (kind < 91) {
      statements.push({ kind: 'group', value: values++ });
    } else if (kind < 94) {
      statements.push({ kind: 'failure' });
    } else if (kind < 97) {
      // A tensor that a backward pass reads later must not be disposed of.
      const made = statements.filter(({ kind }) => kind === 'collective' || kind === 'group');
      if (made.length > 0)
        statements.push({ kind: 'dispose', value: valuesOf(draw.of(made))[0] ?? 0 });
    } else {
      statements.push({ kind: 'pause' });
    }
  }
  let made = 0;
  const reads = statements.map((statement): Reads => {
    made = Math.max(made, ...valuesOf(statement).map((value) => value + 1));
    return Array.from({ length: ranks }, () => {
      if (made === 0 || draw.chance(0.6)) return [];
      return Array.from({ length: 1 + draw.below(2) }, () => draw.below(made));
    });
  });
  return { seed, mesh, models, statements, reads };
}

/** The values that a statement makes. */
function valuesOf(statement: Statement): readonly number[] {
  if (statement.kind === 'forward') return statement.values;
  if (statement.kind === 'step') return statement.clip === null ? [] : [statement.clip];
  return 'value' in statement && statement.kind !== 'dispose' ? [statement.value] : [];
}

/** Strategies under which each forward pass has collectives. */
const communicating: ReadonlySet<StrategyName> = new Set([
  'zero 3',
  'fsdp',
  'fsdp in one unit',
  'tensor parallel',
  'sequence parallel',
  'fsdp of tensor parallel',
]);

/**
 * The program with one change, as a branch that one rank takes alone would make it: a call or a pass less, more, at
 * another place or of another model, or another learning rate. The same number makes the same change. Null if the
 * program has nothing that could be changed so.
 */
export function mutated(program: Program, number: number): Program | null {
  const { statements, reads, models } = program;
  const draw = new Draw(1000 * program.seed + number);
  const isOrdered = (statement: Statement): boolean => {
    if (statement.kind === 'collective' || statement.kind === 'group') return true;
    const strategy = 'model' in statement ? models[statement.model]?.strategy : undefined;
    return statement.kind === 'forward' && strategy !== undefined && communicating.has(strategy);
  };
  const places = statements.flatMap((each, index) => (isOrdered(each) ? [index] : []));
  const at = places.length === 0 ? -1 : draw.of(places);
  const [statement, read] = [statements[at], reads[at]];
  if (statement === undefined || read === undefined) return null;
  switch (draw.below(5)) {
    case 0: {
      const place = draw.of(places);
      const other = statements[place];
      if (other === undefined || isSameCall(statement, other)) return null;
      return { ...program, statements: statements.with(at, other).with(place, statement) };
    }
    case 1:
      return {
        ...program,
        statements: statements.toSpliced(at, 1),
        reads: reads.toSpliced(at, 1),
      };
    case 2:
      return {
        ...program,
        statements: statements.toSpliced(at, 0, statement),
        reads: reads.toSpliced(at, 0, read),
      };
    case 3: {
      const model = models.length - 1;
      if (statement.kind !== 'forward' || statement.model === model) return null;
      if (!communicating.has(models[model]?.strategy ?? 'ddp')) return null;
      return { ...program, statements: statements.with(at, { ...statement, model }) };
    }
    default: {
      // Ranks compare the settings of a step in the next message over the axis.
      const step = statements.findIndex(({ kind }) => kind === 'step');
      const changed = statements[step];
      if (changed?.kind !== 'step' || program.mesh !== 'dp') return null;
      const { model } = changed;
      const isCompared = statements
        .slice(step + 1)
        .some((each) => each.kind === 'backward' && each.model === model);
      const spec = models[model];
      if (!isCompared || spec === undefined) return null;
      return { ...program, models: models.with(model, { ...spec, learningRate: 0.051 }) };
    }
  }
}

/**
 * Whether ranks cannot know that they are at different ones of two statements: calls of the group itself of one kind,
 * and passes of one model with other batches. Those have the same messages.
 */
function isSameCall(one: Statement, other: Statement): boolean {
  if (one === other || (one.kind === 'group' && other.kind === 'group')) return true;
  return one.kind === 'forward' && other.kind === 'forward' && one.model === other.model;
}
