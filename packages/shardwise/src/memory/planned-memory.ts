import {
  checkOptions,
  dropWork,
  dtypes,
  elementCount,
  firstPlace,
  GraphPlaces,
  type Layout,
  localShape,
  Module,
  option,
  type OptionRules,
  type ParameterSpec,
  plannedLives,
  type PlannedLife,
  type Plan,
  randomState,
  setRandomState,
  takingWork,
  type Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import type { MemoryBlock, MemoryCategory } from './memory-profile.ts';

/** Options of `plannedMemory`. */
export interface PlannedMemoryOptions {
  /** The model, before a strategy is applied to it. */
  readonly model: Module;
  /** Builds a training pass and returns its loss. Nothing is computed, so inputs can be zeros. */
  readonly loss: () => Tensor;
  /** The plan of the strategy, as `planFor` returns it. Default: this rank keeps everything. */
  readonly plan?: Plan;
  /** The number of f32 tensors that the optimizer keeps for each parameter. Default: 2, as in Adam. */
  readonly optimizerTensors?: number;
}

const rules: OptionRules<PlannedMemoryOptions> = {
  model: option.required(option.instanceOf(Module)),
  loss: option.required(option.callback()),
  plan: option.object('a plan'),
  optimizerTensors: option.nonNegative,
};

/** Something that has to lie in memory for a part of a training pass. */
export interface PlannedBlock extends Omit<MemoryBlock, 'fromMs' | 'toMs'> {
  /** The operations of the pass that make it and that read it last. */
  readonly fromOperation: number;
  readonly toOperation: number;
}

/** What has to lie in the memory of a rank during a training pass. It is data. */
export interface PlannedMemory {
  /** The number of operations of the forward and the backward pass. */
  readonly operations: number;
  readonly blocks: readonly PlannedBlock[];
  readonly peak: {
    readonly operation: number;
    readonly bytes: number;
    /** What lies in memory then, the largest first. */
    readonly blocks: readonly PlannedBlock[];
  };
}

/**
 * Plans the memory of a training pass, value by value: states by the plan of a strategy, and activations and their gradients by
 * the lazy graph, each from the operation that makes it to the last one that reads it. What a device fuses or reserves is not
 * part of it. Throws ConfigError for options that are wrong.
 */
export function plannedMemory(options: PlannedMemoryOptions): PlannedMemory {
  checkOptions('plannedMemory', options, rules);
  const { model, loss } = options;
  const places = new GraphPlaces();
  const paths = new Map(model.namedModules().map(([path, module]) => [module, path]));
  for (const module of paths.keys()) places.follow(module);
  try {
    const { operations, lives } = livesOf(loss);
    const moduleOf = ({ node }: PlannedLife): string => {
      const innermost = places.modulesOf(node).findLast((module) => paths.has(module));
      return (innermost && paths.get(innermost)) ?? '';
    };
    const values = lives
      .filter(({ leaf }) => leaf === null)
      .map((life): PlannedBlock => ({
        bytes: life.bytes,
        category: life.phase === 'forward' ? 'activations' : 'temporary',
        module: moduleOf(life),
        operation: `${life.node.op} [${life.node.shape.join(', ')}] ${life.node.dtype}, ${life.phase}`,
        fromOperation: life.from,
        toOperation: life.to,
      }));
    const born = new Map(lives.flatMap(({ leaf, from }) => (leaf === null ? [] : [[leaf, from]])));
    const blocks = [...stateBlocks(options, operations, born), ...values];
    return { operations, blocks, peak: peakOf(blocks, operations) };
  } finally {
    places.close();
  }
}

/** Builds a pass of which nothing is left: the program does not compute it, and draws the same random numbers after it. */
function livesOf(loss: () => Tensor): ReturnType<typeof plannedLives> {
  const random = randomState();
  const { result, work } = takingWork(() => withoutValues(() => plannedLives(loss())));
  dropWork(work);
  setRandomState(random);
  return result;
}

function stateBlocks(
  { model, plan, optimizerTensors = 2 }: PlannedMemoryOptions,
  operations: number,
  born: ReadonlyMap<unknown, number>,
): readonly PlannedBlock[] {
  const planned = new Map(plan?.parameters.map((parameter) => [parameter.name, parameter]));
  const partOf = ({ shape }: Pick<ParameterSpec, 'shape'>, layout?: Layout): number =>
    elementCount(
      layout === undefined || plan === undefined
        ? shape
        : localShape(shape, layout, firstPlace(plan.axes)),
    );
  return model.namedParameters().flatMap(([name, parameter]) => {
    const layouts = planned.get(name);
    const { bytes } = dtypes[parameter.dtype];
    const module = name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : '';
    const block = (
      category: MemoryCategory,
      words: string,
      elements: number,
      elementBytes: number,
      fromOperation = 0,
    ): PlannedBlock => ({
      bytes: elements * elementBytes,
      category,
      module,
      operation: `${words} ${name}`,
      fromOperation,
      toOperation: operations,
    });
    const kept = block('parameters', 'parameter', partOf(parameter, layouts?.parameter), bytes);
    if (!parameter.requiresGrad) return [kept];
    const states = partOf(parameter, layouts?.optimizer);
    return [
      kept,
      block(
        'gradients',
        'gradient of',
        partOf(parameter, layouts?.gradient),
        bytes,
        born.get(parameter.contents),
      ),
      block('optimizer states', 'optimizer state of', states, 4 * optimizerTensors),
    ];
  });
}

function peakOf(blocks: readonly PlannedBlock[], operations: number): PlannedMemory['peak'] {
  const changes = new Float64Array(operations + 2);
  for (const { bytes, fromOperation, toOperation } of blocks) {
    changes[fromOperation] = (changes[fromOperation] ?? 0) + bytes;
    changes[toOperation + 1] = (changes[toOperation + 1] ?? 0) - bytes;
  }
  let [operation, most, now] = [0, 0, 0];
  for (const [at, change] of changes.entries()) {
    now += change;
    if (now > most) [operation, most] = [at, now];
  }
  const alive = blocks.filter(
    ({ fromOperation, toOperation }) => fromOperation <= operation && toOperation >= operation,
  );
  return { operation, bytes: most, blocks: alive.toSorted((a, b) => b.bytes - a.bytes) };
}
