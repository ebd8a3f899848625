import {
  checkOptions,
  ConfigError,
  LayoutError,
  type MeshAxis,
  type ModelSpec,
  option,
  type OptionRules,
  type Strategy,
} from '@shardwise/core/extend';
import {
  collectivesOf,
  compose,
  ddp,
  fsdp,
  type ModelPlan,
  planMemory,
  tensorParallel,
  zero,
} from '@shardwise/strategies';

/** Options of `auto`. */
export interface AutoOptions {
  /** The bytes that each rank may use. All ranks must give the same. */
  readonly memoryBytes: number;
  /** The bytes of the forward pass that the backward pass reads, as `activationBytes` of core counts them. Default: 0. */
  readonly activationBytes?: number;
  /** The number of f32 tensors that the optimizer keeps for each parameter. Default: 2, as in Adam. */
  readonly optimizerTensors?: number;
  /** Is told what was chosen, on each rank, whenever a plan is made. */
  readonly onChoice?: (choice: AutoChoice) => void;
}

/** What `auto` has chosen, and what else it considered. */
export interface AutoChoice {
  readonly chosen: AutoCandidate;
  /** All strategies that were considered, from those that send least. */
  readonly candidates: readonly AutoCandidate[];
}

/** A strategy for the ranks at hand. */
export interface AutoCandidate {
  readonly name: string;
  /** The bytes that a rank keeps and, for a time, gathers. */
  readonly bytes: number;
  /** The bytes that a rank sends in a step: twice those of an all-reduce. */
  readonly sentBytes: number;
}

const autoRules: OptionRules<AutoOptions> = {
  memoryBytes: option.required(option.positive),
  activationBytes: option.nonNegative,
  optimizerTensors: option.nonNegative,
  onChoice: option.callback(),
};

/**
 * Chooses the strategy for the ranks at hand: of those whose states, activations and gathered parameters fit into the
 * memory, the one that sends least in a step. On an axis `dp` these are ddp, zero 1 and 2, and fsdp, from the simplest;
 * an axis `tp` is for the division of layers that the model gives (Module.division). The plan is that of the chosen
 * strategy. `explain` prints it, and `onChoice` is told of it.
 *
 *     const parallel = await parallelize(model, auto({ memoryBytes: 6e9, activationBytes: activationBytes(loss) }));
 *
 * Planning throws ConfigError if nothing fits, with the least that would do, and LayoutError for other axes.
 */
export function auto(options: AutoOptions): Strategy {
  checkOptions('auto', options, autoRules);
  return {
    specificationVersion: 1,
    name: 'auto',
    plan(model, axes) {
      const considered = strategiesFor(model, axes).map((strategy) => {
        const plan: ModelPlan = strategy.make().plan(model, axes);
        return { plan, candidate: candidateOf(strategy.name, plan, options) };
      });
      const candidates = considered.map(({ candidate }) => candidate);
      const fitting = considered.filter(({ candidate }) => candidate.bytes <= options.memoryBytes);
      const [first, ...others] = fitting;
      if (first === undefined) throw nothingFits(options, candidates);
      // Of those that send the same, the first is the simplest.
      const best = others.reduce(
        (least, each) => (each.candidate.sentBytes < least.candidate.sentBytes ? each : least),
        first,
      );
      options.onChoice?.({ chosen: best.candidate, candidates });
      return best.plan;
    },
  };
}

interface NamedStrategy {
  readonly name: string;
  readonly make: () => Strategy;
}

function strategiesFor(model: ModelSpec, axes: readonly MeshAxis[]): readonly NamedStrategy[] {
  const sizes = new Map(axes.map(({ name, size }) => [name, size]));
  const unknown = axes.find(({ name }) => name !== 'dp' && name !== 'tp');
  const hasLayers = (sizes.get('tp') ?? 1) > 1;
  if (unknown !== undefined || (hasLayers && model.division?.styles === undefined)) {
    const asked = `auto() on the axes ${axes.map(({ name, size }) => `${name} of ${size}`).join(', ')}`;
    throw new LayoutError(
      {
        asked,
        found:
          unknown === undefined
            ? 'a model that does not say how its layers are divided'
            : `the axis '${unknown.name}', for which it has no strategy`,
        todo: 'Use axes dp and tp, or choose the strategy by `shardwise plan` and name it',
      },
      { axes: axes.map(({ name }) => name) },
    );
  }
  const ofData: readonly NamedStrategy[] = [
    { name: 'ddp', make: () => ddp() },
    { name: 'zero 1', make: () => zero({ stage: 1 }) },
    { name: 'zero 2', make: () => zero({ stage: 2 }) },
    { name: 'fsdp', make: () => fsdp() },
  ];
  if (!hasLayers) return ofData;
  if (!sizes.has('dp')) return [{ name: 'tensorParallel', make: () => tensorParallel() }];
  return ofData.map(({ name, make }) => ({
    name: `tensorParallel × ${name}`,
    make: () => compose(tensorParallel(), make()),
  }));
}

function candidateOf(name: string, plan: ModelPlan, options: AutoOptions): AutoCandidate {
  const { activationBytes = 0, optimizerTensors = 2 } = options;
  const { statesBytes, bufferBytes } = planMemory(plan, { optimizerTensors });
  const messages = collectivesOf(plan).filter(({ when }) => when !== 'start');
  const sizeOf = (axis: string): number => plan.axes.find((each) => each.name === axis)?.size ?? 1;
  const sentBytes = messages.reduce((sum, { operation, axis, bytes }) => {
    const size = sizeOf(axis);
    return sum + ((operation === 'allReduce' ? 2 : 1) * bytes * (size - 1)) / size;
  }, 0);
  // Of the units that are gathered, one is used while the next one arrives.
  const gathers = messages.filter(({ operation, when }) => {
    return operation === 'allGather' && when !== 'optimizer';
  });
  const gathered = 2 * Math.max(0, ...gathers.map(({ bytes }) => bytes));
  return {
    name,
    bytes: statesBytes + (bufferBytes ?? 0) + activationBytes + gathered,
    sentBytes,
  };
}

function nothingFits(
  { memoryBytes }: AutoOptions,
  candidates: readonly AutoCandidate[],
): ConfigError {
  const [first, ...others] = candidates;
  const least = others.reduce(
    (a, b) => (b !== undefined && a !== undefined && b.bytes < a.bytes ? b : a),
    first,
  );
  return new ConfigError(
    {
      asked: `auto() with ${memoryBytes} bytes for each rank`,
      found: `no strategy that fits: ${least?.name ?? 'none'} needs least, ${Math.ceil(least?.bytes ?? 0)} bytes`,
      todo: 'Use more ranks, smaller microbatches, or nn.checkpoint; `shardwise plan` compares them',
    },
    { memoryBytes, leastBytes: least?.bytes ?? 0 },
  );
}
