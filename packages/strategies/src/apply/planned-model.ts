import {
  axisOf,
  broadcast,
  ConfigError,
  currentSession,
  inForwardPass,
  isGradEnabled,
  type Model,
  type Module,
  type Node,
  noGrad,
  type ParallelModel,
  type Parameter,
  synchronously,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import type { Joinable, JoinContext, JoinHook } from '../distributed-data-parallel/join.ts';
import { forEachTensor } from '../modules/map-tensors.ts';
import { ofRankZero } from '../plan/from-rank-zero.ts';
import type { PassHooks, PlanContext } from '../plan/plan-context.ts';
import type { ModelPlan } from '../plan/step.ts';

/** A model that trains by a plan, as `parallelize` returns it. */
export class PlannedModel<M extends Module, Inputs extends readonly unknown[], Output>
  implements ParallelModel<M, Inputs, Output>, Joinable
{
  readonly module: M & Model<Inputs, Output>;
  readonly #context: PlanContext;
  readonly #known: KnownParameters;
  #join: JoinContext | null = null;
  /** Whether gradients are averaged. False inside noSync. */
  #synchronizes = true;

  /** `context` belongs to a plan that has been applied to the model. */
  constructor(model: M & Model<Inputs, Output>, context: PlanContext) {
    this.module = model;
    this.#context = context;
    this.#known = new KnownParameters(context.plan.strategy, model);
  }

  /**
   * The plan as it runs now. Buckets of gradients are filled again when the order is known in which gradients
   * arrive. Parameters that the latest passes did not read were not gathered or reduced.
   */
  get plan(): ModelPlan {
    const { hooks, plan } = this.#context;
    return hooks.reduce((latest, hook) => hook.planned?.(latest) ?? latest, plan);
  }

  /** Throws ConfigError if the model got new parameters since `parallelize`. */
  forward(...inputs: Inputs): Output {
    this.#known.check();
    const { hooks, buffers, reducers } = this.#context;
    const join = this.#join;
    const sends = buffers?.broadcasts.begin({ synchronizes: this.#synchronizes }) ?? false;
    const gradients = this.#synchronizes && isGradEnabled();
    const suffix = this.#context.numbers.suffix(buffers?.axes[0] ?? '');
    noGrad(() => {
      if (join !== null) {
        for (const reducer of reducers.values()) reducer.announce(gradients);
        join.notify(this, { gradients, buffers: sends });
        this.#scaleFor(join);
      }
      if (!sends) return;
      buffers?.broadcasts.send((message) =>
        withCollectiveName(`the buffers${suffix === '' ? ' of the model' : suffix}`, () =>
          join === null ? ofRankZero(message, buffers.axes) : join.fromFirstActive(message),
        ),
      );
    });
    for (const hook of hooks) hook.beforeForward?.(inputs);
    const run = hooks.reduceRight(around<Inputs, Output>, (...own) => this.module.forward(...own));
    try {
      return inForwardPass(() => run(...inputs), nodesOf);
    } finally {
      for (const hook of hooks) hook.afterForward?.();
    }
  }

  noSync<T>(body: () => T): T {
    const before = this.#synchronizes;
    this.#setSynchronizing(false);
    try {
      return synchronously('noSync', body);
    } finally {
      this.#setSynchronizing(before);
    }
  }

  /**
   * Gives all ranks the parameters that a master updates. Without it, they have those of the latest forward
   * pass.
   */
  replicate(): void {
    for (const hook of this.#context.hooks) hook.replicate?.();
  }

  /**
   * Ends the training on many ranks. The module is an ordinary module again, except that mixed precision stays.
   * Throws ConfigError if ranks have parts of it.
   */
  detach(): M {
    this.#requireWhole(
      'to detach a model from its plan',
      'Save it, and load it into another model',
    );
    for (const hook of this.#context.hooks) hook.detach?.();
    return this.module;
  }

  /** See `join`. A rank without a batch gets the averaged gradients of the others, too. */
  joinHook(context: JoinContext): JoinHook {
    this.#requireWhole(
      'join of a model',
      'Iterate over joinBatches(loader) instead, and multiply each loss by the weight of its batch',
    );
    this.#join = context;
    const { reducers, buffers } = this.#context;
    return {
      shadow: async ({ gradients, buffers: sends }) => {
        noGrad(() => {
          if (sends) buffers?.broadcasts.send((message) => context.fromOthers(message));
          this.#scaleFor(context);
          if (gradients) for (const reducer of reducers.values()) reducer.shadow();
        });
        await currentSession().realize([]);
      },
      finish: async (root) => {
        const own = this.module.namedBuffers().map(([, buffer]) => buffer);
        buffers?.broadcasts.settle();
        const parts = this.module.parameters().map(({ part }) => part);
        for (const axis of reducers.keys()) await broadcastAll([...parts, ...own], axis, root);
      },
      leave: () => {
        this.#join = null;
        for (const reducer of reducers.values()) {
          reducer.scale = null;
          reducer.endAnnouncements();
        }
      },
    };
  }

  #setSynchronizing(synchronizes: boolean): void {
    this.#synchronizes = synchronizes;
    const { reducers, partReducers } = this.#context;
    for (const each of [...reducers.values(), ...partReducers.values()]) {
      each.enabled = synchronizes;
    }
  }

  #scaleFor(join: JoinContext): void {
    for (const [axis, reducer] of this.#context.reducers) {
      const { size } = axisOf(currentSession().mesh, axis);
      reducer.scale = join.divideByInitialWorldSize ? null : join.activeRanks.pow(-1).mul(size);
    }
  }

  #requireWhole(asked: string, todo: string): void {
    const shared = this.module
      .namedParameters()
      .find(([, { part }]) => part.shardedOver.length > 0);
    if (shared === undefined) return;
    const [name, { part }] = shared;
    throw new ConfigError(
      {
        asked: `${asked} under ${this.#context.plan.strategy}`,
        found: `the ranks of '${part.shardedOver.join("' × '")}' have parts of '${name}'`,
        todo,
      },
      { parameter: name },
    );
  }
}

/** The nodes of the tensors of a result. */
function nodesOf(output: unknown): readonly Node[] {
  const nodes: Node[] = [];
  forEachTensor(output, ({ node }) => nodes.push(node));
  return nodes;
}

/** Wraps a forward pass in the one of a hook, if the hook has one. */
function around<Inputs extends readonly unknown[], Output>(
  run: (...inputs: Inputs) => Output,
  hook: PassHooks,
): (...inputs: Inputs) => Output {
  return (...inputs) =>
    hook.forward === undefined ? run(...inputs) : hook.forward<Inputs, Output>(run, inputs);
}

async function broadcastAll(tensors: readonly Tensor[], axis: string, root: number): Promise<void> {
  if (tensors.length === 0) return;
  noGrad(() => {
    for (const tensor of tensors) tensor.assign(broadcast(tensor, axis, root));
  });
  await currentSession().realize([]);
}

/** The parameters that a model has when a strategy is applied to it. These are the ones whose gradients ranks share. */
class KnownParameters {
  readonly #strategy: string;
  readonly #model: Module;
  readonly #known: ReadonlySet<Parameter>;

  constructor(strategy: string, model: Module) {
    this.#strategy = strategy;
    this.#model = model;
    this.#known = new Set(model.parameters());
  }

  /** Throws ConfigError if the model has got other parameters since, which each rank would train by itself. */
  check(): void {
    const added = this.#model.namedParameters().filter(([, each]) => !this.#known.has(each));
    if (added.length === 0) return;
    const names = added.map(([name]) => name);
    throw new ConfigError(
      {
        asked: `a forward pass of a model under ${this.#strategy}`,
        found: `${names.join(', ')} was put into it after parallelize(), so each rank would train its own copy`,
        todo: 'Put all parameters into the model before parallelize()',
      },
      { parameters: names },
    );
  }
}

/**
 * A model whose passes take targets after the inputs and return the loss. In evaluation without targets they return the
 * model's output.
 */
export type PlannedModelWithLoss<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[],
> = PlannedModel<M, [...Inputs, ...Targets], Tensor> & Model<Inputs, Output>;
