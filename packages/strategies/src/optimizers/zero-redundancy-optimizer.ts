import {
  axisOf,
  broadcast,
  checkOptions,
  CheckpointError,
  ConfigError,
  currentSession,
  endStep,
  formatShape,
  type HostArrays,
  noGrad,
  Optimizer,
  type OptimizerInput,
  type OptimizerSettings,
  type OptimizerStateDict,
  option,
  type OptionRules,
  type ParameterState,
  type ParamGroup,
  type ParamGroupInput,
  type SavedState,
  type SavedType,
  type StepOptions,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import type { Joinable, JoinHook } from '../distributed-data-parallel/join.ts';
import { receiveState, sendState } from './state-message.ts';

/** SGD, Adam, AdamW, or another subclass of Optimizer. */
export type OptimizerClass<Settings extends OptimizerSettings> = new (
  params: OptimizerInput<Settings>,
  settings?: Partial<Settings>,
) => Optimizer<Settings>;

/** Options of `ZeroRedundancyOptimizer`. */
export interface ZeroRedundancyOptions {
  /** The mesh axis whose ranks shard the parameters. Default: `dp`. */
  readonly axis?: string;
}

const classRules = {
  optimizerClass: option.required<unknown>({
    fits: (value): value is unknown =>
      typeof value === 'function' && value.prototype instanceof Optimizer,
    expected: 'a class of optimizers, such as optim.AdamW',
  }),
};
const optionRules: OptionRules<ZeroRedundancyOptions> = { axis: option.axisName };

/**
 * An optimizer for models under DDP. Each rank keeps the optimizer states of some parameters, updates these
 * parameters, and gives them to the other ranks. It matches torch.distributed.optim.ZeroRedundancyOptimizer,
 * including the partition.
 */
export class ZeroRedundancyOptimizer<Settings extends OptimizerSettings> implements Joinable {
  readonly #optimizer: Optimizer<Settings>;
  readonly #axis: string;
  #owners = new Map<Tensor, number>();
  #consolidated: OptimizerStateDict<Settings> | null = null;

  /**
   * Throws the ConfigErrors of the optimizer's constructor, and ConfigError for parameters that are divided
   * over the axis.
   */
  constructor(
    params: OptimizerInput<Settings>,
    optimizerClass: OptimizerClass<Settings>,
    settings: Partial<Settings> = {},
    options: ZeroRedundancyOptions = {},
  ) {
    checkOptions('ZeroRedundancyOptimizer', options, optionRules);
    checkOptions<{ optimizerClass: unknown }>(
      'ZeroRedundancyOptimizer',
      { optimizerClass },
      classRules,
    );
    const { axis = 'dp' } = options;
    this.#optimizer = new optimizerClass(params, settings);
    this.#axis = axis;
    this.#partition();
  }

  get paramGroups(): ParamGroup<Settings>[] {
    return this.#optimizer.paramGroups;
  }

  /** The rank that updates a parameter of this optimizer. */
  ownerOf(parameter: Tensor): number | undefined {
    return this.#owners.get(parameter);
  }

  /**
   * Updates this rank's parameters. Every rank then gets each parameter from the rank that has updated it. It is a
   * collective.
   */
  async step(options: StepOptions = {}): Promise<boolean> {
    const { rank } = this.#group();
    const updates = (parameter: Tensor): boolean => this.#owners.get(parameter) === rank;
    const skipped = this.#optimizer.buildStep({ ...options, updates });
    withCollectiveName('the parameters that ZeroRedundancyOptimizer has updated', () =>
      noGrad(() => {
        for (const [{ part }, owner] of this.#owners) {
          if (part.grad !== null) part.assign(broadcast(part, this.#axis, owner));
        }
      }),
    );
    this.#consolidated = null;
    await currentSession().realize([]);
    return endStep(options, skipped);
  }

  /** The states that this rank keeps of a parameter; undefined if another rank updates it. */
  stateOf(parameter: Tensor): ParameterState | undefined {
    return this.#optimizer.stateOf(parameter);
  }

  savedState(parameter: Tensor): SavedState | undefined {
    return this.#optimizer.savedState(parameter);
  }

  savedType(parameter: Tensor, name: string): SavedType {
    return this.#optimizer.savedType(parameter, name);
  }

  /** Keeps the states of parameters that this rank updates. Throws CheckpointError as Optimizer does. */
  restore(saved: ReadonlyMap<Tensor, HostArrays>, settings: readonly object[]): void {
    const { rank } = this.#group();
    const own = [...saved].filter(([parameter]) => this.#owners.get(parameter) === rank);
    this.#optimizer.restore(new Map(own), settings);
    this.#consolidated = null;
  }

  zeroGrad(): void {
    this.#optimizer.zeroGrad();
  }

  /**
   * See `join`. Pass this optimizer after the model. A rank without a batch continues to update its parameters
   * with the gradients that DDP gives it.
   */
  joinHook(): JoinHook {
    return {
      shadow: async ({ gradients }) => {
        if (gradients) await this.step();
      },
      finish: () => Promise.resolve(),
      leave: () => {},
    };
  }

  /** Adds a group. Existing parameters keep the ranks that update them. */
  addParamGroup(input: ParamGroupInput<Settings>): void {
    this.#optimizer.addParamGroup(input);
    this.#consolidated = null;
    this.#partition();
  }

  /** Gives the states of all ranks to rank `to`, where stateDict then returns them. It is a collective. */
  async consolidateStateDict(to = 0): Promise<void> {
    const group = currentSession().mesh.group(this.#axis);
    const own = await this.#optimizer.stateDict();
    const state: Record<string, HostArrays> = {};
    let index = 0;
    for (const owner of this.#owners.values()) {
      const key = String(index++);
      const mine = own.state[key];
      if (owner !== to && group.rank === owner) await sendState(group, to, mine);
      if (group.rank !== to) continue;
      const arrays = owner === to ? mine : await receiveState(group, owner);
      if (arrays !== undefined) state[key] = arrays;
    }
    this.#consolidated = group.rank === to ? { state, paramGroups: own.paramGroups } : null;
  }

  /**
   * Returns the states of all ranks. Throws CheckpointError on all ranks except the one to which they have been
   * consolidated.
   */
  stateDict(): OptimizerStateDict<Settings> {
    if (this.#consolidated !== null) return this.#consolidated;
    throw new CheckpointError({
      asked: 'the optimizer states of all ranks',
      found:
        'they have not been consolidated on this rank since the last step, state dict or new group',
      todo: 'Call `await optimizer.consolidateStateDict(rank)` on all ranks, and stateDict() on that one',
    });
  }

  /** Keeps this rank's part of a state dict. Throws CheckpointError as Optimizer does. */
  loadStateDict(dict: OptimizerStateDict<Settings>): void {
    const { rank } = this.#group();
    const owners = [...this.#owners.values()];
    const own = Object.entries(dict.state).filter(([index]) => owners[Number(index)] === rank);
    this.#optimizer.loadStateDict({ ...dict, state: Object.fromEntries(own) });
    this.#consolidated = null;
  }

  #group(): { readonly rank: number; readonly size: number } {
    return axisOf(currentSession().mesh, this.#axis);
  }

  #partition(): void {
    const groups = this.#optimizer.paramGroups.map(({ params }) => params);
    const divided = groups
      .flat()
      .find(({ part: { shardedOver } }) => shardedOver.includes(this.#axis));
    if (divided !== undefined) throw partError(divided.part, this.#axis);
    const sizes = groups.map((params) => params.map(({ part: { numel } }) => numel));
    const owners = partitionParameters(sizes, this.#group().size).flat();
    this.#owners = new Map(
      groups.flat().map((parameter, index) => [parameter, owners[index] ?? 0]),
    );
  }
}

function partError({ shape }: Tensor, axis: string): ConfigError {
  return new ConfigError(
    {
      asked: `a ZeroRedundancyOptimizer over the mesh axis '${axis}'`,
      found: `a parameter of which each rank of the axis has its own part, here of shape ${formatShape(shape)}`,
      todo: 'Use a plain optimizer with zero() and fsdp(), which shard its states already',
    },
    { axis, shape },
  );
}

/**
 * Decides by PyTorch's greedy rule which rank updates each whole parameter. In each group, the largest parameters come
 * first, equal ones in their order. Each goes to the first rank that has the fewest elements so far, counted over all
 * groups. Sizes are numbers of elements, by group.
 */
export function partitionParameters(
  groups: readonly (readonly number[])[],
  ranks: number,
): readonly (readonly number[])[] {
  const loads = Array.from({ length: ranks }, () => 0);
  return groups.map((sizes) => {
    const owners = sizes.map(() => 0);
    const largestFirst = [...sizes.entries()].sort(([, a], [, b]) => b - a);
    for (const [index, size] of largestFirst) {
      const owner = loads.indexOf(Math.min(...loads));
      loads[owner] = (loads[owner] ?? 0) + size;
      owners[index] = owner;
    }
    return owners;
  });
}
