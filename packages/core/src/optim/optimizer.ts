import { withoutAutocast } from '../graph/autocast.ts';
import { atCallSite, newestNodeId, noGrad, siteOf } from '../graph/create-node.ts';
import { noteSettings } from '../graph/step-settings.ts';
import { currentSession, ownPlace } from '../rank.ts';
import { asOneUpdate } from '../realize/pending/pending.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import { arraysOfOnly } from '../serialization/arrays-of-only.ts';
import type { HostArray, HostArrays } from '../serialization/host-array.ts';
import { ConfigError, describeValue, DTypeError } from '../spec/errors.ts';
import { rankState, synchronously } from '../ambient.ts';
import { skipAssignmentsIf } from '../tensor/handle.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { requireNoMore } from '../tensor/check-calls.ts';
import { Tensor } from '../tensor/tensor.ts';
import type { Updater } from '../tensor/updater.ts';
import {
  checkedSettings,
  checkParams,
  makeParamGroups,
  type OptimizerInput,
  type OptimizerSettings,
  type ParamGroup,
  type ParamGroupInput,
  partsOf,
  withSavedSettings,
} from './param-group.ts';
import {
  checkGroups,
  narrowError,
  ruleError,
  unknownParameter,
  updatedElsewhere,
} from './optimizer-errors.ts';
import { OptimizerStates, type SavedState } from './optimizer-states.ts';
import type { ParameterState } from './parameter-state.ts';
import type { SavedType, StateType } from './state-type.ts';

/**
 * Assigns new contents to a parameter and its state. If ranks share the parameter out, these are this rank's
 * parts. `whole` is the parameter of the model: `whole.wholeOf(part)` and `whole.partOf(whole)` are for rules
 * that need a whole matrix. Shapes: all are that of the parameter, or of its part; `whole` has that of the
 * whole.
 */
export type UpdateRule = (
  parameter: Tensor,
  gradient: Tensor,
  state: ParameterState,
  whole: Tensor,
) => void;

/** Options of `Optimizer.step`. */
export interface StepOptions {
  /** If this value, which the run of the step computes, is true, the step changes nothing. Shape: bool []. */
  readonly skipIf?: Tensor;
}

/** Options of `Optimizer.buildStep`. */
export interface BuildStepOptions extends StepOptions {
  /** Which of the parameters with a gradient are updated. Default: all. */
  readonly updates?: (parameter: Tensor) => boolean;
  /** Whether this is a further part of a step of which an earlier call has built a part. Default: false. */
  readonly continues?: boolean;
}

const stepRules: OptionRules<StepOptions> = { skipIf: option.instanceOf(Tensor) };
const buildStepRules: OptionRules<BuildStepOptions> = {
  ...stepRules,
  updates: option.callback(),
  continues: option.flag,
};

/**
 * The state of an optimizer. Parameters are numbered through all groups, as in PyTorch. States are those of
 * whole parameters.
 */
export interface OptimizerStateDict<Settings extends OptimizerSettings> {
  readonly state: Readonly<Record<string, Readonly<Record<string, HostArray>>>>;
  readonly paramGroups: readonly (Settings & { readonly params: readonly number[] })[];
}

const dictPart = option.required(option.object());
const dictRules = { state: dictPart, paramGroups: dictPart };

/** Updates parameters by their gradients. Subclasses define the rule. */
export abstract class Optimizer<Settings extends OptimizerSettings = OptimizerSettings> {
  /** Settings may be changed at any time, for example by a schedule. */
  readonly paramGroups: ParamGroup<Settings>[];
  readonly #defaults: Settings;
  readonly #states: OptimizerStates;
  /** Whether an updater is running an update on this rank. buildStep is allowed only then. */
  #isStepping = false;

  /**
   * `defaults` contains all settings that exist. Other settings are refused, and so are values of another type.
   * `more` is what the constructor of the subclass was given beyond its parameters, which is refused. Throws
   * ConfigError, also for no parameters, for parameters that occur twice, and for settings out of range. Throws
   * TensorStateError for parameters that their model no longer has.
   */
  constructor(
    params: OptimizerInput<Settings>,
    settings: Partial<Settings>,
    defaults: Settings,
    more: readonly unknown[] = [],
  ) {
    const name = this.typeName;
    requireNoMore(name, 2, more);
    this.#defaults = checkedSettings(name, settings, defaults);
    this.paramGroups = makeParamGroups(name, params, this.#defaults);
    for (const group of this.paramGroups) this.checkSettings(group);
    this.#states = new OptimizerStates({
      typeName: name,
      savedNames: () => this.savedNames,
      stateType: (...of) => this.stateType(...of),
      exportState: (...of) => this.exportState(...of),
      importState: (...of) => this.importState(...of),
      wholeState: (...of) => this.wholeState(...of),
    });
  }

  /**
   * The name of the class in messages, and for parameter servers. Minifiers shorten the names of classes. A
   * class with `static readonly typeName = 'Own'` keeps its name.
   */
  get typeName(): string {
    const own: unknown = Object.hasOwn(this.constructor, 'typeName')
      ? Reflect.get(this.constructor, 'typeName')
      : undefined;
    return typeof own === 'string' ? own : this.constructor.name;
  }

  /**
   * Updates every parameter that has a gradient, and computes all pending values (the loss, gradients, updates)
   * in one run. Returns whether it updated, which it does not if `skipIf` is true. Throws the errors of
   * buildStep.
   */
  async step(options: StepOptions = {}): Promise<boolean> {
    checkOptions(`${this.typeName}.step()`, options, stepRules);
    const updater = this.#updater();
    if (updater !== null) {
      await this.#stepBy(updater, options);
      return true;
    }
    return this.#stepHere(options);
  }

  async #stepHere(options: StepOptions): Promise<boolean> {
    const skipped = this.buildStep(options);
    await currentSession().realize([]);
    return endStep(options, skipped);
  }

  /**
   * Adds the updates to the graph. The next realization makes all of them or, if it fails, none. Returns a
   * function to call after it if `skipIf` was true; see `endStep`. Throws TensorStateError, before it adds any,
   * for a parameter that the model no longer has, and if a strategy has not reduced all gradients.
   */
  buildStep(options: BuildStepOptions = {}): () => void {
    checkOptions(`${this.typeName}.buildStep()`, options, buildStepRules);
    const updater = this.#updater();
    if (updater !== null && !this.#isStepping) throw updatedElsewhere('buildStep()', updater);
    const { skipIf, updates = () => true, continues = false } = options;
    // Schedulers and users may have changed the settings.
    for (const group of this.paramGroups) this.checkSettings(group);
    const leaves = new Set<object>(this.#params().map(({ part }) => part));
    const update = { leaves, takesLocalGradients: this.takesLocalGradients };
    for (const parameter of this.#params()) parameter.checkUpdate(update);
    if (!continues) this.#noteStep();
    const olderId = newestNodeId();
    const states: ParameterState[] = [];
    const rollBackStepCounts = (): void => {
      for (const state of states.splice(0)) state.steps--;
    };
    skipIf?.retain();
    const build = (): void =>
      atCallSite(siteOf('step'), () => {
        for (const group of this.paramGroups) this.#updateGroup(group, updates, states);
      });
    withoutValues(() =>
      asOneUpdate(rollBackStepCounts, () =>
        noGrad(() => skipAssignmentsIf(skipIf?.node ?? null, build)),
      ),
    );
    rankState.observer?.update(olderId);
    return rollBackStepCounts;
  }

  /** Notes the settings of a step, which must be the same on all ranks that make it together. */
  #noteStep(): void {
    const told = { call: `${this.typeName}.step()`, groups: this.paramGroups };
    noteSettings(told, partsOf(this.#params()), ownPlace, true);
  }

  zeroGrad(): void {
    for (const parameter of this.#params()) parameter.zeroGrad();
  }

  /** Throws the errors of the constructor. */
  addParamGroup(input: ParamGroupInput<Settings>): void {
    const added = makeParamGroups(this.typeName, [input], this.#defaults);
    checkParams([...this.paramGroups, ...added]);
    for (const group of added) this.checkSettings(group);
    this.paramGroups.push(...added);
  }

  /** The state of a parameter. Undefined before its first update. */
  stateOf(parameter: Tensor): ParameterState | undefined {
    return this.#states.get(parameter);
  }

  /** What checkpoints keep of a parameter on this rank. Undefined before its first update. */
  savedState(parameter: Tensor): SavedState | undefined {
    const { updater } = parameter.part;
    if (updater?.keepsStates === true) throw updatedElsewhere('to save its states', updater);
    return this.#states.saved(parameter);
  }

  /** The layout of a saved state. Throws CheckpointError for a name that this optimizer does not use. */
  savedType(parameter: Tensor, name: string): SavedType {
    return this.#states.savedType(parameter, name);
  }

  /**
   * Loads this rank's part of saved states, by parameter, and the settings of the groups. Among the tensors of a
   * parameter, `step` is its count of steps. Throws CheckpointError and ConfigError, before anything changes, for data
   * that do not fit.
   */
  restore(saved: ReadonlyMap<Tensor, HostArrays>, settings: readonly object[]): void {
    const own = this.typeName;
    const updater = this.#updater();
    if (updater?.keepsStates === true) throw updatedElsewhere('to load its states', updater);
    const groups = this.paramGroups.map((group, index) =>
      withSavedSettings(own, group, settings[index] ?? {}),
    );
    for (const group of groups) this.checkSettings(group);
    for (const [parameter, arrays] of saved) this.#states.check(parameter, arrays);
    this.#states.replace(saved);
    for (const [index, group] of this.paramGroups.entries()) Object.assign(group, groups[index]);
  }

  /**
   * The states of whole parameters, as copies on the host. If ranks share parameters out, this is a collective. For
   * states that vary over ranks, it contains those of this rank. Throws TensorStateError for parameters that the model
   * no longer has.
   */
  async stateDict(): Promise<OptimizerStateDict<Settings>> {
    const state: Record<string, HostArrays> = {};
    for (const [index, parameter] of this.#params().entries()) {
      parameter.checkNotReplaced();
      const saved = this.savedState(parameter);
      const own = saved === undefined ? undefined : await this.#states.whole(parameter, saved);
      const arrays = await arraysOfOnly(parameter.part.layout, own);
      if (arrays !== undefined) state[index] = arrays;
    }
    let first = 0;
    const paramGroups = this.paramGroups.map((group) => {
      const params = group.params.map(() => first++);
      return { ...group, params };
    });
    return { state, paramGroups };
  }

  /**
   * Each rank loads its part. Throws ConfigError for what is no state, such as the promise of one, and CheckpointError,
   * before anything changes, if groups, settings, names or shapes differ.
   */
  loadStateDict(dict: OptimizerStateDict<Settings>): void {
    checkOptions<{ state: object; paramGroups: object }>(
      `${this.typeName}.loadStateDict()`,
      dict,
      dictRules,
    );
    checkGroups(this.paramGroups, dict.paramGroups);
    const params = this.#params();
    const states = Object.entries(dict.state).map(([index, arrays]) => {
      const parameter = params[Number(index)];
      if (parameter === undefined) throw unknownParameter(index, params.length);
      return [parameter, this.#states.partOf(parameter, arrays)] as const;
    });
    this.restore(new Map(states), dict.paramGroups);
  }

  /** Returns the update of parameters that are being updated for the `steps`-th time. */
  protected abstract rule(settings: Settings, steps: number): UpdateRule;

  /** Whether the rule averages over the ranks by itself, and takes gradients of this rank alone. */
  protected get takesLocalGradients(): boolean {
    return false;
  }

  /** Throws ConfigError for settings out of range. It is also called at each step. */
  protected abstract checkSettings(settings: Settings): void;

  /**
   * The type of the state that is kept under a name for a parameter, or for this rank's part of it. By default, it is
   * that of the part. Only few optimizers override it.
   */
  protected stateType(_name: string, part: Tensor): StateType {
    return { shape: part.shape, dtype: part.dtype };
  }

  /** The names under which states are saved. Undefined: any name is allowed. */
  protected get savedNames(): readonly string[] | undefined {
    return undefined;
  }

  /**
   * The tensors to save for a state. Override it if they are saved in another form than they are kept in. Each has the
   * stateType of its name.
   */
  protected exportState(state: ParameterState, _part: Tensor): ReadonlyMap<string, () => Tensor> {
    return new Map([...state.tensors].map(([name, tensor]) => [name, () => tensor]));
  }

  /** Stores a saved array in the state. The opposite of exportState. */
  protected importState(
    state: ParameterState,
    name: string,
    array: HostArray,
    _part: Tensor,
  ): void {
    state.set(name, array);
  }

  /** The whole of a state of a parameter. If ranks share the state out, this is a collective. */
  protected wholeState(_name: string, tensor: Tensor, parameter: Tensor): Tensor {
    return parameter.wholeOf(tensor);
  }

  /** Builds the updates of a group. Adds the states of the updated parameters to `counted`. */
  #updateGroup(
    group: ParamGroup<Settings>,
    updates: (parameter: Tensor) => boolean,
    counted: ParameterState[],
  ): void {
    const rules = new Map<number, UpdateRule>();
    for (const parameter of group.params) {
      const { part } = parameter;
      const gradient = part.grad;
      if (gradient === null || !updates(parameter)) continue;
      const state = this.#states.obtain(parameter);
      state.steps++;
      counted.push(state);
      const rule = rules.get(state.steps) ?? this.rule(group, state.steps);
      rules.set(state.steps, rule);
      this.#apply(rule, parameter, gradient, state);
    }
  }

  /** Runs a rule. Throws ConfigError for a rule that is not a function, or that does not assign to the parameter. */
  #apply(rule: UpdateRule, parameter: Tensor, gradient: Tensor, state: ParameterState): void {
    const name = this.typeName;
    const { part } = parameter;
    const given: unknown = rule;
    if (typeof given !== 'function') {
      throw ruleError(name, part, `rule() returned ${describeValue(given)}`, 'Return a function');
    }
    const { contents } = part;
    try {
      withoutAutocast(() =>
        synchronously(`the update rule of ${name}`, () => rule(part, gradient, state, parameter)),
      );
    } catch (error) {
      throw error instanceof DTypeError && part.dtype !== 'f32'
        ? narrowError(name, part, error)
        : error;
    }
    if (part.contents !== contents) return;
    const todo = 'Write parameter.assign(…) in the function that rule() returns';
    throw ruleError(name, part, 'it has assigned nothing to the parameter', todo);
  }

  /**
   * The updater that updates the parameters in this optimizer's place, or null. Throws ConfigError if the parameters do
   * not all have the same.
   */
  #updater(): Updater | null {
    const [first = null, ...others] = new Set(this.#params().map(({ part }) => part.updater));
    if (others.length === 0) return first;
    throw new ConfigError({
      asked: `a step of ${this.typeName}`,
      found: `some of its parameters are updated by ${[first, ...others].flatMap((each) => each?.name ?? []).join(', ')}, and others here`,
      todo: 'Give each an optimizer of its own',
    });
  }

  async #stepBy(updater: Updater, { skipIf }: StepOptions): Promise<void> {
    const name = this.typeName;
    if (skipIf !== undefined) throw updatedElsewhere('a step with skipIf', updater);
    for (const group of this.paramGroups) this.checkSettings(group);
    for (const parameter of this.#params()) parameter.checkNotReplaced();
    const groups = this.paramGroups.map(({ params, ...settings }) => ({ params, settings }));
    const updateHere = async (): Promise<void> => {
      this.#isStepping = true;
      try {
        await this.#stepHere({});
      } finally {
        this.#isStepping = false;
      }
    };
    await updater.step({ optimizer: name, groups, updateHere });
  }

  #params(): Tensor[] {
    return this.paramGroups.flatMap(({ params }) => params);
  }
}

/** Whether a step was taken. Call it after the run, with the result of `buildStep` as `skipped`. */
export async function endStep({ skipIf }: StepOptions, skipped: () => void): Promise<boolean> {
  if (skipIf === undefined || (await skipIf.item()) === 0) return true;
  skipped();
  return false;
}
