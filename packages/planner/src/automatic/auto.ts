import {
  checkOptions,
  ConfigError,
  option,
  type OptionRules,
  type PageStore,
  type Strategy,
} from '@shardwise/core/extend';
import { collectivesOf, type ModelPlan, planMemory, Step, stepKinds } from '@shardwise/strategies';
import { type NamedStrategy, strategiesFor } from './named-strategies.ts';

/** Options of `auto`. */
export interface AutoOptions {
  /** The bytes that each rank may use. All ranks must give the same. */
  readonly memoryBytes: number;
  /**
   * The bytes of the forward pass that the backward pass reads, as `activationBytes` of core counts them. If no strategy has
   * room for them, the backward pass recomputes some. Default: 0.
   */
  readonly activationBytes?: number;
  /**
   * Where activations may be between the forward and the backward pass, such as `hostPages()`, if no strategy has room for them
   * and that is sooner than to recompute them. Default: all stay on the device.
   */
  readonly pages?: PageStore;
  /** The number of f32 tensors that the optimizer keeps for each parameter. Default: 2, as in Adam. */
  readonly optimizerTensors?: number;
  /** The number of microbatches of a pipeline. Default: 4 for each of its ranks. */
  readonly microbatches?: number;
  /** Is told what was chosen, on each rank, whenever a plan is made. */
  readonly onChoice?: (choice: AutoChoice) => void;
}

/** What `auto` has chosen, and what else it considered. */
export interface AutoChoice {
  readonly chosen: AutoCandidate;
  /** All strategies that were considered, from those that send least. */
  readonly candidates: readonly AutoCandidate[];
  /**
   * The bytes that a training pass may take besides what a rank keeps: the backward pass recomputes what they do not
   * hold, or reads it from pages (`nn.activationMemoryBudget`). Null: everything is kept.
   */
  readonly passBytes: number | null;
}

/** A strategy for the ranks at hand. */
export interface AutoCandidate {
  readonly name: string;
  /** The bytes that a rank keeps and, for a time, gathers. */
  readonly bytes: number;
  /** Those of them that a rank keeps between passes: parameters, optimizer states and buffers. */
  readonly keptBytes: number;
  /** The bytes that a rank sends in a step, besides those between stages: twice those of an all-reduce. */
  readonly sentBytes: number;
  /** The time in which a rank of a pipeline waits, in microbatches. 0: there is no pipeline. */
  readonly bubble: number;
}

const autoRules: OptionRules<AutoOptions> = {
  memoryBytes: option.required(option.positive),
  activationBytes: option.nonNegative,
  pages: option.object(),
  optimizerTensors: option.nonNegative,
  microbatches: option.integer(1),
  onChoice: option.callback(),
};

/**
 * Chooses the strategy for the ranks at hand: of those whose states, activations and gathered parameters fit into the
 * memory, the one that sends least in a step. On an axis `dp` these are ddp, zero 1 and 2, and fsdp, from the simplest;
 * an axis `tp` is for the division of layers that the model gives (Module.division), and an axis `pp` for a pipeline of the
 * stages that it gives, with the schedule that waits least among those that fit. The plan is that of the chosen
 * strategy. `explain` prints it, and `onChoice` is told of it. If only the activations leave no room, it is the strategy
 * that keeps least, and the plan has a step `recompute` besides, by which backward recomputes as much as it must, or reads it from `pages`.
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
      const considered = strategiesFor(model, axes, options.microbatches).map(
        (strategy): Considered => {
          const plan: ModelPlan = strategy.make().plan(model, axes);
          return { plan, candidate: candidateOf(strategy, plan, options) };
        },
      );
      const candidates = considered.map(({ candidate }) => candidate);
      const fitting = considered.filter(({ candidate }) => candidate.bytes <= options.memoryBytes);
      const [first, ...others] = fitting;
      if (first === undefined) return recomputing(considered, options);
      // Of those that send the same, the first is the simplest.
      const best = others.reduce(
        (least, each) => (isBetter(each.candidate, least.candidate) ? each : least),
        first,
      );
      options.onChoice?.({ chosen: best.candidate, candidates, passBytes: null });
      return best.plan;
    },
  };
}

interface Considered {
  readonly plan: ModelPlan;
  readonly candidate: AutoCandidate;
}

/** The strategy that keeps least, with what is recomputed in the rest of the memory. Throws ConfigError. */
function recomputing(considered: readonly Considered[], options: AutoOptions): ModelPlan {
  const { memoryBytes, activationBytes = 0, pages, onChoice } = options;
  const candidates = considered.map(({ candidate }) => candidate);
  const [first, ...others] = considered;
  if (first === undefined) throw nothingFits(options, candidates);
  const { plan, candidate } = others.reduce(
    (least, each) => (each.candidate.bytes < least.candidate.bytes ? each : least),
    first,
  );
  // A checkpoint around the model would leave no module with which a stage can begin.
  if (plan.axes.some(({ name, size }) => name === 'pp' && size > 1)) {
    throw nothingFits(options, candidates);
  }
  // Without activations, the gradients and what is gathered have to fit.
  if (candidate.bytes - activationBytes >= memoryBytes) throw nothingFits(options, candidates);
  const bytes = Math.floor(memoryBytes - candidate.keptBytes);
  onChoice?.({ chosen: candidate, candidates, passBytes: bytes });
  return { ...plan, steps: [...plan.steps, new Step(stepKinds.recompute, { bytes, pages })] };
}

/** Whether a strategy sends less than another, or the same and waits less. */
function isBetter(candidate: AutoCandidate, other: AutoCandidate): boolean {
  return candidate.sentBytes === other.sentBytes
    ? candidate.bubble < other.bubble
    : candidate.sentBytes < other.sentBytes;
}

function candidateOf(
  { name, activationShare = 1, bubble = 0 }: NamedStrategy,
  plan: ModelPlan,
  options: AutoOptions,
): AutoCandidate {
  const { activationBytes = 0, optimizerTensors = 2 } = options;
  const { statesBytes, gradientBytes, bufferBytes } = planMemory(plan, { optimizerTensors });
  const states = statesBytes + (bufferBytes ?? 0);
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
    bytes: states + activationShare * activationBytes + gathered,
    keptBytes: states - gradientBytes,
    sentBytes,
    bubble,
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
