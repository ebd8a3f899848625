import {
  ConfigError,
  fromBytes,
  fromData,
  noGrad,
  Parameter,
  type Gradient,
  type HostArray,
  hostArray,
  type HostArrays,
  type Optimizer,
  type OptimizerInput,
  type OptimizerSettings,
  withoutValues,
  zeros,
} from '@shardwise/core/extend';
import { viewBytes } from '../protocol/arrays.ts';
import { refusal } from '../protocol/refusal.ts';
import type { ServedParameter, UpdateRecipe } from '../protocol/job.ts';
import type { StoredHead } from '../protocol/shard-head.ts';

/** Makes an optimizer from parameter groups with their settings. */
export type ServedOptimizer = (groups: OptimizerInput<OptimizerSettings>) => Optimizer;

/** The optimizers of a server, by the names that workers ask for. */
export type OptimizerTable = Readonly<Record<string, ServedOptimizer>>;

/** The parameters and the optimizer's states of a server, as they go into a snapshot. */
export interface StoredState {
  readonly head: StoredHead;
  /** The values of each parameter, then the states. */
  readonly arrays: readonly Uint8Array[];
}

const unreduced = { expect: () => {}, arrive: () => {}, checkUpdate: () => {} };

/** The parameters of a server, on its device, and the optimizer that updates them there. */
export class StoredParameters {
  readonly #table: OptimizerTable;
  readonly #specs: readonly ServedParameter[];
  readonly #parameters: readonly Parameter[];
  readonly #gradients: readonly Gradient[];
  #optimizer: Optimizer | null = null;
  #recipe: UpdateRecipe | null = null;
  #values: readonly Uint8Array[] | null;

  constructor(
    table: OptimizerTable,
    specs: readonly ServedParameter[],
    values: readonly Uint8Array[],
  ) {
    this.#table = table;
    this.#specs = specs;
    this.#values = values.map((bytes) => bytes.slice());
    this.#parameters = specs.map(
      ({ shape }, index) => new Parameter(fromBytes(copyOf(values, index), 'f32'), shape),
    );
    this.#gradients = this.#parameters.map((each) => each.reduceGradient(unreduced));
  }

  /**
   * Makes one update by the mean of the gradients sent for each parameter. A null counts as zeros. A parameter for
   * which all are null is not changed. The device sums in the given order and then divides, as DDP does. Shapes: each
   * gradient has that of its parameter, flat.
   */
  async update(
    recipe: UpdateRecipe,
    gradients: readonly (readonly (Float32Array | null)[])[],
  ): Promise<void> {
    if (this.#parameters.length === 0) return;
    const optimizer = sound(recipe, () => this.#optimizerOf(recipe));
    withoutValues(() =>
      noGrad(() => {
        gradients.forEach((sent, index) => {
          const { shape = [] } = this.#parameters[index] ?? {};
          if (sent.every((gradient) => gradient === null)) return;
          const sum = sent
            .map((gradient) => (gradient ? fromData(gradient, shape, 'f32') : zeros(shape)))
            .reduce((all, gradient) => all.add(gradient));
          const mean = sent.length === 1 ? sum : sum.div(sent.length);
          this.#gradients[index]?.addReduced(mean.node);
        });
      }),
    );
    this.#values = null;
    try {
      await optimizer.step();
    } finally {
      for (const gradient of this.#gradients) gradient.clear();
    }
  }

  /** Replaces the values of all parameters. Shapes: each that of its parameter, flat. */
  async write(values: readonly Float32Array[]): Promise<void> {
    this.#values = null;
    withoutValues(() =>
      noGrad(() => {
        this.#parameters.forEach((parameter, index) => {
          const { [index]: value } = values;
          if (value !== undefined) parameter.assign(fromData(value, parameter.shape, 'f32'));
        });
      }),
    );
    for (const parameter of this.#parameters) await parameter.realize();
  }

  /** Returns the values of each parameter. The arrays are never changed later. */
  async values(): Promise<readonly Uint8Array[]> {
    if (this.#values !== null) return this.#values;
    const read: Uint8Array[] = [];
    for (const parameter of this.#parameters) {
      read.push(viewBytes(await parameter.data()));
    }
    this.#values = read;
    return read;
  }

  async state(): Promise<StoredState> {
    const dict = (await this.#optimizer?.stateDict()) ?? { state: {} };
    const states = Object.entries(dict.state).flatMap(([parameter, arrays]) =>
      Object.entries(arrays).map(([name, array]) => ({ parameter, name, array })),
    );
    return {
      head: {
        recipe: this.#recipe,
        states: states.map(({ parameter, name, array: { dtype, shape } }) => ({
          parameter,
          name,
          dtype,
          shape,
        })),
      },
      arrays: [...(await this.values()), ...states.map(({ array }) => array.bytes)],
    };
  }

  /** Restores the optimizer's states from a snapshot. The values were given to the constructor. */
  async restore({ head: { recipe, states }, arrays }: StoredState): Promise<void> {
    if (recipe === null) return;
    const optimizer = this.#optimizerOf(recipe);
    const state: Record<string, Record<string, HostArray>> = {};
    states.forEach(({ parameter, name, dtype, shape }, index) => {
      const bytes = arrays[this.#specs.length + index] ?? new Uint8Array(0);
      (state[parameter] ??= {})[name] = hostArray(dtype, shape, bytes.slice());
    });
    const { paramGroups } = await optimizer.stateDict();
    optimizer.loadStateDict({ state: state satisfies Record<string, HostArrays>, paramGroups });
  }

  /** Returns the optimizer, with the settings of this step. */
  #optimizerOf(recipe: UpdateRecipe): Optimizer {
    const earlier = this.#recipe;
    const isSame =
      earlier !== null &&
      earlier.optimizer === recipe.optimizer &&
      JSON.stringify(earlier.groups.map(({ params }) => params)) ===
        JSON.stringify(recipe.groups.map(({ params }) => params));
    if (earlier !== null && !isSame) {
      throw refusal('other-model', {
        asked: `a step of ${recipe.optimizer}`,
        found: `earlier steps were of ${earlier.optimizer}, or of other groups of parameters`,
        todo: 'Give every worker the same optimizer with the same groups',
      });
    }
    const made = this.#optimizer ?? this.#make(recipe);
    recipe.groups
      .filter(({ params }) => params.length > 0)
      .forEach(({ settings }, index) => {
        const group = made.paramGroups[index];
        if (group !== undefined) Object.assign(group, known(group, settings));
      });
    this.#optimizer = made;
    this.#recipe = recipe;
    return made;
  }

  #make({ optimizer, groups }: UpdateRecipe): Optimizer {
    const made = Object.hasOwn(this.#table, optimizer) ? this.#table[optimizer] : undefined;
    if (made === undefined) {
      throw refusal('unknown-optimizer', {
        asked: `a step of ${optimizer}`,
        found: `servers have ${Object.keys(this.#table).join(', ')}`,
        todo: 'Use one of these, or let each worker keep its own: consistency { elastic }',
      });
    }
    // A range may have no parameter of a group.
    const filled = groups.filter(({ params }) => params.length > 0);
    return made(
      filled.map(({ params, settings }) => ({
        ...settings,
        lr: Number(settings['lr']),
        params: params.flatMap((index) => this.#parameters[index] ?? []),
      })),
    );
  }
}

/** Converts an optimizer's ConfigError into a refusal, because the request is at fault. */
function sound<T>({ optimizer }: UpdateRecipe, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const todo = 'Give every worker an optimizer with settings that it takes';
    throw refusal('malformed', {
      asked: `a step of ${optimizer.slice(0, 100)}`,
      found: error.message,
      todo: todo,
    });
  }
}

function copyOf(values: readonly Uint8Array[], index: number): Uint8Array {
  return (values[index] ?? new Uint8Array(0)).slice();
}

/**
 * Checks that a group has all of these settings, with values of the same kind. The optimizer checks ranges in its step.
 */
function known(group: object, settings: Readonly<Record<string, unknown>>): object {
  const own = new Map<string, unknown>(Object.entries(group));
  for (const [name, value] of Object.entries(settings)) {
    if (own.has(name) && typeof own.get(name) === typeof value) continue;
    throw refusal('malformed', {
      asked: `a step with the setting ${name.slice(0, 100)}`,
      found: 'the optimizer has no such setting, or one of another kind',
      todo: 'Give every worker the same optimizer',
    });
  }
  return settings;
}
