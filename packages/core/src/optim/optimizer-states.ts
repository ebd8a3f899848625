import { noGrad } from '../graph/create-node.ts';
import { isHeldAt } from '../layout/chunks.ts';
import { ownPlace } from '../rank.ts';
import type { HostArray, HostArrays } from '../serialization/host-array.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { unknownState } from './optimizer-errors.ts';
import { ParameterState } from './parameter-state.ts';
import { checkSavedState, partOfState, readWhole } from './saved-arrays.ts';
import { type SavedType, savedTypeOf, type StateType } from './state-type.ts';
import { decodeStepCount, encodeStepCount } from './step-count.ts';

/** What checkpoints keep of a parameter on this rank. */
export interface SavedState {
  readonly steps: number;
  /** Tensors by PyTorch's names. Each call may compute a tensor again. */
  readonly tensors: ReadonlyMap<string, () => Tensor>;
}

/** The types of an optimizer's states, and the form in which they are saved. The methods are those of Optimizer. */
export interface StateForm {
  readonly typeName: string;
  savedNames(): readonly string[] | undefined;
  stateType(name: string, part: Tensor): StateType;
  exportState(state: ParameterState, part: Tensor): ReadonlyMap<string, () => Tensor>;
  importState(state: ParameterState, name: string, array: HostArray, part: Tensor): void;
  wholeState(name: string, tensor: Tensor, parameter: Tensor): Tensor;
}

/** The states of the parameters of an optimizer on this rank. */
export class OptimizerStates {
  readonly #states = new Map<Tensor, ParameterState>();
  readonly #form: StateForm;

  constructor(form: StateForm) {
    this.#form = form;
  }

  /** The state of a parameter. Undefined before its first update. */
  get(parameter: Tensor): ParameterState | undefined {
    return this.#states.get(parameter);
  }

  /** The state of a parameter. It is made at its first update. */
  obtain(parameter: Tensor): ParameterState {
    const known = this.#states.get(parameter);
    if (known !== undefined) return known;
    const state = new ParameterState((name) => this.#form.stateType(name, parameter.part));
    this.#states.set(parameter, state);
    return state;
  }

  /** What checkpoints keep of a parameter on this rank. Undefined before its first update. */
  saved(parameter: Tensor): SavedState | undefined {
    const state = this.#states.get(parameter);
    if (state === undefined) return undefined;
    return { steps: state.steps, tensors: this.#form.exportState(state, parameter.part) };
  }

  /** The layout of a saved state. Throws CheckpointError for a name that the optimizer does not use. */
  savedType(parameter: Tensor, name: string): SavedType {
    const names = this.#form.savedNames();
    if (names !== undefined && !names.includes(name)) {
      throw unknownState(name, this.#form.typeName, names);
    }
    return savedTypeOf(name, this.#form.stateType(name, parameter.part), parameter.part);
  }

  /** Copies the whole state of a parameter to the host. A collective, if ranks share it out. */
  async whole(parameter: Tensor, { steps, tensors }: SavedState): Promise<HostArrays> {
    const arrays: Record<string, HostArray> = { step: encodeStepCount(steps) };
    for (const [name, make] of tensors) {
      const tensor = noGrad(() => this.#form.wholeState(name, make(), parameter));
      arrays[name] = await readWhole(tensor);
    }
    return arrays;
  }

  /** Cuts this rank's part from the whole state of a parameter. Throws CheckpointError. Shape: whole -> part. */
  partOf(parameter: Tensor, whole: HostArrays): HostArrays {
    return partOfState((name) => this.savedType(parameter, name), whole);
  }

  /** Throws CheckpointError for arrays that are not this rank's part of a state. */
  check(parameter: Tensor, arrays: HostArrays): void {
    checkSavedState((name) => this.savedType(parameter, name), arrays);
  }

  /** Replaces all states by this rank's parts of saved ones, which `check` has checked. */
  replace(saved: ReadonlyMap<Tensor, HostArrays>): void {
    for (const state of this.#states.values()) state.dispose();
    this.#states.clear();
    for (const [parameter, { step, ...arrays }] of saved) {
      if (!isHeldAt(parameter.part.layout, ownPlace)) continue;
      const state = this.obtain(parameter);
      noGrad(() => {
        for (const [name, array] of Object.entries(arrays)) {
          const own = { ...array, bytes: array.bytes.slice() };
          this.#form.importState(state, name, own, parameter.part);
        }
      });
      // PyTorch's SGD saves no count of steps. A parameter with a saved momentum has taken at least one step.
      state.steps =
        step === undefined ? Math.min(1, Object.keys(arrays).length) : decodeStepCount(step);
    }
  }
}
