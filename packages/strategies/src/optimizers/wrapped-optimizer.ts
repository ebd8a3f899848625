import {
  checkOptions,
  type HostArrays,
  Optimizer,
  type OptimizerSettings,
  type OptimizerStateDict,
  option,
  type OptionRules,
  type ParameterState,
  type SavedState,
  type SavedType,
  type Tensor,
} from '@shardwise/core/extend';

const rules: OptionRules<{ readonly optimizer: Optimizer }> = {
  optimizer: option.required(option.instanceOf(Optimizer)),
};

/**
 * An optimizer that updates in another way. Groups, states and checkpoints are those of the optimizer that it wraps.
 */
export abstract class WrappedOptimizer<Wrapped extends Optimizer> {
  readonly optimizer: Wrapped;

  /** `of` names the class in messages. Throws ConfigError for what is no optimizer. */
  constructor(of: string, optimizer: Wrapped) {
    checkOptions(of, { optimizer }, rules);
    this.optimizer = optimizer;
  }

  get paramGroups(): Wrapped['paramGroups'] {
    return this.optimizer.paramGroups;
  }

  stateOf(parameter: Tensor): ParameterState | undefined {
    return this.optimizer.stateOf(parameter);
  }

  savedState(parameter: Tensor): SavedState | undefined {
    return this.optimizer.savedState(parameter);
  }

  savedType(parameter: Tensor, name: string): SavedType {
    return this.optimizer.savedType(parameter, name);
  }

  /** Throws CheckpointError as Optimizer does. */
  restore(saved: ReadonlyMap<Tensor, HostArrays>, settings: readonly object[]): void {
    this.optimizer.restore(saved, settings);
  }

  /** Takes a state dict as `restore` does. */
  loadStateDict(dict: OptimizerStateDict<OptimizerSettings>): void {
    this.optimizer.loadStateDict(dict);
  }

  zeroGrad(): void {
    this.optimizer.zeroGrad();
  }
}
