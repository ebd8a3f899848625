import { noGrad } from '../graph/node.ts';
import { currentSession } from '../rank.ts';
import { asOneUpdate } from '../realize/pending.ts';
import { withoutValues } from '../realize/small-values.ts';
import type { HostArray } from '../serialization/host-array.ts';
import type { ValueType } from '../spec/dtype.ts';
import { CheckpointError } from '../spec/errors.ts';
import { keepingIf } from '../tensor/handle.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';
import { Tensor } from '../tensor/tensor.ts';
import {
  checkedSettings,
  checkParams,
  makeParamGroups,
  type OptimizerInput,
  type OptimizerSettings,
  type ParamGroup,
  type ParamGroupInput,
  withSavedSettings,
} from './param-group.ts';
import { ParameterState } from './parameter-state.ts';

/** Assigns new contents to a parameter and its state. Shapes: all that of the parameter. */
export type UpdateRule = (parameter: Tensor, gradient: Tensor, state: ParameterState) => void;

export interface StepOptions {
  /** A step changes nothing where this is true, which the run of the step computes. Shape: bool []. */
  readonly skipIf?: Tensor;
}

export interface BuildStepOptions extends StepOptions {
  /** Of the parameters that have a gradient, those to update; default: all. */
  readonly updates?: (parameter: Tensor) => boolean;
}

const stepRules: OptionRules<StepOptions> = { skipIf: option.instanceOf(Tensor) };
const buildStepRules: OptionRules<BuildStepOptions> = { ...stepRules, updates: option.callback() };

/** Parameters are numbered through all groups, as in PyTorch. */
export interface OptimizerStateDict<Settings extends OptimizerSettings> {
  readonly state: Readonly<Record<string, Readonly<Record<string, HostArray>>>>;
  readonly paramGroups: readonly (Settings & { readonly params: readonly number[] })[];
}

/** Updates parameters by their gradients; subclasses give the rule. */
export abstract class Optimizer<Settings extends OptimizerSettings = OptimizerSettings> {
  /** Settings may be changed at any time, for example by a schedule. */
  readonly paramGroups: ParamGroup<Settings>[];
  readonly #defaults: Settings;
  readonly #states = new Map<Tensor, ParameterState>();

  /**
   * `defaults` has all settings that there are: others are refused, and those of another kind. Throws
   * ConfigError, also for no parameters, parameters that stand twice, and settings out of range.
   */
  constructor(params: OptimizerInput<Settings>, settings: Partial<Settings>, defaults: Settings) {
    const { name } = this.constructor;
    this.#defaults = checkedSettings(name, settings, defaults);
    this.paramGroups = makeParamGroups(name, params, this.#defaults);
    for (const group of this.paramGroups) this.checkSettings(group);
  }

  /**
   * Updates every parameter that has a gradient, and computes all that is pending (loss, gradients,
   * updates) in one run. Returns whether it did: not where `skipIf` is true.
   */
  async step(options: StepOptions = {}): Promise<boolean> {
    checkOptions(`${this.constructor.name}.step()`, options, stepRules);
    const skipped = this.buildStep(options);
    await currentSession().realize([]);
    return endStep(options, skipped);
  }

  /**
   * Adds the updates to the graph; the next realization carries out all of them or, where it fails, none.
   * Returns what to call after it where `skipIf` was true, see `endStep`.
   */
  buildStep(options: BuildStepOptions = {}): () => void {
    checkOptions(`${this.constructor.name}.buildStep()`, options, buildStepRules);
    const { skipIf, updates = () => true } = options;
    // Schedules and users change them.
    for (const group of this.paramGroups) this.checkSettings(group);
    const states: ParameterState[] = [];
    const uncount = (): void => {
      for (const state of states.splice(0)) state.steps--;
    };
    skipIf?.retain();
    const build = (): void => {
      for (const group of this.paramGroups) states.push(...this.#updateGroup(group, updates));
    };
    withoutValues(() =>
      asOneUpdate(uncount, () => noGrad(() => keepingIf(skipIf?.node ?? null, build))),
    );
    return uncount;
  }

  zeroGrad(): void {
    for (const parameter of this.#params()) parameter.zeroGrad();
  }

  /** Throws ConfigError as the constructor. */
  addParamGroup(input: ParamGroupInput<Settings>): void {
    const added = makeParamGroups(this.constructor.name, [input], this.#defaults);
    checkParams([...this.paramGroups, ...added]);
    for (const group of added) this.checkSettings(group);
    this.paramGroups.push(...added);
  }

  /** What is kept of a parameter; undefined before its first update. */
  stateOf(parameter: Tensor): ParameterState | undefined {
    return this.#states.get(parameter);
  }

  /** Copies on the host. */
  async stateDict(): Promise<OptimizerStateDict<Settings>> {
    const state: Record<string, Record<string, HostArray>> = {};
    for (const [index, parameter] of this.#params().entries()) {
      const kept = this.#states.get(parameter);
      if (kept !== undefined) state[index] = await kept.read();
    }
    let first = 0;
    const paramGroups = this.paramGroups.map((group) => {
      const params = group.params.map(() => first++);
      return { ...group, params };
    });
    return { state, paramGroups };
  }

  /** Throws CheckpointError, before anything changes, where groups, settings or shapes differ. */
  loadStateDict(dict: OptimizerStateDict<Settings>): void {
    checkGroups(this.paramGroups, dict.paramGroups);
    const { name } = this.constructor;
    const groups = this.paramGroups.map((group, index) =>
      withSavedSettings(name, group, dict.paramGroups[index] ?? {}),
    );
    const params = this.#params();
    const states = Object.entries(dict.state).map(([index, arrays]) => {
      const parameter = params[Number(index)];
      if (parameter === undefined) throw unknownParameter(index, params.length);
      return [
        parameter,
        ParameterState.from((name) => this.stateType(name, parameter), arrays),
      ] as const;
    });
    for (const [index, group] of this.paramGroups.entries()) Object.assign(group, groups[index]);
    for (const state of this.#states.values()) state.dispose();
    this.#states.clear();
    for (const [parameter, state] of states) this.#states.set(parameter, state);
  }

  /** The update of parameters that have been updated `steps` times, this one included. */
  protected abstract rule(settings: Settings, steps: number): UpdateRule;

  /** Throws ConfigError for settings out of range; also called at each step. */
  protected abstract checkSettings(settings: Settings): void;

  /** Shape and dtype of what is kept of a parameter under a name; as the parameter's, but for few optimizers. */
  protected stateType(_name: string, parameter: Tensor): ValueType {
    return { shape: parameter.shape, dtype: parameter.dtype };
  }

  /** Returns the states of the parameters that are updated. */
  #updateGroup(
    group: ParamGroup<Settings>,
    updates: (parameter: Tensor) => boolean,
  ): ParameterState[] {
    const rules = new Map<number, UpdateRule>();
    const states: ParameterState[] = [];
    for (const parameter of group.params) {
      const gradient = parameter.grad;
      if (gradient === null || !updates(parameter)) continue;
      const state = this.#keptOf(parameter);
      state.steps++;
      const rule = rules.get(state.steps) ?? this.rule(group, state.steps);
      rules.set(state.steps, rule);
      rule(parameter, gradient, state);
      states.push(state);
    }
    return states;
  }

  #keptOf(parameter: Tensor): ParameterState {
    const known = this.#states.get(parameter);
    if (known !== undefined) return known;
    const state = new ParameterState((name) => this.stateType(name, parameter));
    this.#states.set(parameter, state);
    return state;
  }

  #params(): Tensor[] {
    return this.paramGroups.flatMap(({ params }) => params);
  }
}

/** After the run of a step: whether it was taken. `skipped` is what `buildStep` returned. */
export async function endStep({ skipIf }: StepOptions, skipped: () => void): Promise<boolean> {
  if (skipIf === undefined || (await skipIf.item()) === 0) return true;
  skipped();
  return false;
}

function checkGroups(
  groups: readonly { readonly params: readonly unknown[] }[],
  saved: readonly { readonly params: readonly unknown[] }[],
): void {
  const [asked, found] = [groups, saved].map((list) =>
    list.map(({ params }) => params.length).join(', '),
  );
  if (asked === found) return;
  throw new CheckpointError(
    {
      asked: `load the state of an optimizer whose groups have ${asked} parameters`,
      found: `groups of ${found} parameters`,
      todo: 'Make the groups as they were when the state was saved',
    },
    { asked, found },
  );
}

function unknownParameter(index: string, count: number): CheckpointError {
  return new CheckpointError(
    {
      asked: `load the state of parameter ${index}`,
      found: `${count} parameters`,
      todo: 'Load the state of an optimizer of the same model',
    },
    { index, count },
  );
}
