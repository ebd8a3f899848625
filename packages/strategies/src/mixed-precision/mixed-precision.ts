import {
  checkOptions,
  ConfigError,
  type HalfDType,
  option,
  type OptionRules,
  type Plan,
} from '@shardwise/core/extend';

/**
 * Which values have fewer bits than f32, as in MixedPrecisionPolicy of PyTorch's fully_shard, torch.autocast, and
 * DeepSpeed's fp16 and bf16.
 */
export interface MixedPrecision {
  /**
   * The dtype of products, as in core's `autocast`, inside which the model's forward pass runs: operands have
   * 16 bits and sums are f32. Norms, softmax, losses, and the values that an optimizer updates are f32.
   * Default: f32.
   */
  readonly computeDtype?: HalfDType;
  /**
   * The dtype in which ranks store and gather parameters for forward and backward. In addition, each rank keeps an f32
   * part, which the optimizer updates. Default: f32, in one copy.
   */
  readonly parameterDtype?: HalfDType;
  /** The dtype in which gradients are reduced over ranks, and kept. Default: parameterDtype. */
  readonly reduceDtype?: HalfDType | 'f32';
  /**
   * Whether floating-point inputs of the forward passes of the model and of each unit are converted to parameterDtype.
   * Then activations have this dtype, and the result of each operation is rounded to it, as in PyTorch by default.
   * Default: false. Then activations are f32, or follow from computeDtype.
   */
  readonly castForwardInputs?: boolean;
  /**
   * The dtype to which floating-point results of the model's forward pass are converted. Default: f32 with
   * computeDtype, otherwise they are not converted.
   */
  readonly outputDtype?: HalfDType | 'f32';
}

/** The parts of a plan that follow from a policy. */
export type PlannedPrecision = Pick<Plan, 'lowPrecision' | 'autocast'>;

export function plannedPrecision(policy: MixedPrecision | undefined): PlannedPrecision {
  const { computeDtype, parameterDtype, castForwardInputs, outputDtype } = policy ?? {};
  const output = computeDtype === undefined && outputDtype !== undefined ? { outputDtype } : {};
  return {
    ...(parameterDtype === undefined
      ? {}
      : {
          lowPrecision: {
            parameterDtype,
            gradientDtype: policy?.reduceDtype ?? parameterDtype,
            ...(castForwardInputs === undefined ? {} : { castForwardInputs }),
            ...output,
          },
        }),
    ...(computeDtype === undefined
      ? {}
      : { autocast: { dtype: computeDtype, outputDtype: outputDtype ?? 'f32' } }),
  };
}

const rules: OptionRules<MixedPrecision> = {
  computeDtype: option.oneOf('f16', 'bf16'),
  parameterDtype: option.oneOf('f16', 'bf16'),
  reduceDtype: option.oneOf('f16', 'bf16', 'f32'),
  castForwardInputs: option.flag,
  outputDtype: option.oneOf('f16', 'bf16', 'f32'),
};

/** Throws ConfigError for options out of range, and for options that would have no effect together. */
export function checkMixedPrecision(policy: MixedPrecision | undefined): void {
  if (policy === undefined) return;
  checkOptions('mixedPrecision', policy, rules);
  const { computeDtype, parameterDtype, reduceDtype, castForwardInputs = false } = policy;
  if (computeDtype === undefined && parameterDtype === undefined) {
    throw unfit(policy, 'neither of them', 'Give computeDtype, parameterDtype, or both');
  }
  if (parameterDtype === undefined && ((reduceDtype ?? 'f32') !== 'f32' || castForwardInputs)) {
    const option = castForwardInputs ? 'castForwardInputs' : 'reduceDtype';
    throw unfit(
      policy,
      `${option} for parameters of f32`,
      `Give parameterDtype too, or leave ${option} out`,
    );
  }
  if (computeDtype !== undefined && castForwardInputs) {
    const todo = 'Leave one of them out: with computeDtype, norms and losses are f32';
    throw unfit(
      policy,
      'castForwardInputs, with which every operation computes in parameterDtype',
      todo,
    );
  }
  if (computeDtype !== undefined && (parameterDtype ?? computeDtype) !== computeDtype) {
    throw unfit(policy, 'parameters that would be rounded twice', 'Use one dtype for both');
  }
}

/**
 * Checks the policy of a strategy that stores everything in f32. Throws ConfigError also for options that the strategy
 * would ignore.
 */
export function checkComputePrecision(strategy: string, policy: MixedPrecision | undefined): void {
  checkMixedPrecision(policy);
  if (policy?.parameterDtype === undefined) return;
  const todo = 'Give the parameterDtype to ddp(), zero() or fsdp(), and compose them';
  throw unfit(policy, `${strategy}(), which stores and reduces in f32`, todo);
}

function unfit(policy: MixedPrecision, found: string, todo: string): ConfigError {
  const { computeDtype = 'f32', parameterDtype = 'f32' } = policy;
  return new ConfigError(
    {
      asked: `mixedPrecision with computeDtype ${computeDtype} and parameterDtype ${parameterDtype}`,
      found,
      todo,
    },
    { ...policy },
  );
}
