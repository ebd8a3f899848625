import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { newestNodeId, noGrad } from '../../graph/create-node.ts';
import { forgetValues } from '../../realize/pending/small-values.ts';
import { currentSession } from '../../rank.ts';
import { ConfigError } from '../../spec/errors.ts';
import type { Model } from '../../spec/strategy.ts';
import type { Module } from '../module/module.ts';
import { nodesSince } from '../summary/nodes-since.ts';
import { nodesIn } from '../summary/tensors-in.ts';
import { FlopsProfiler, type FlopsProfilerOptions, profilerRules } from './flops-profiler.ts';
import type { ModelProfile } from './model-profile.ts';
import { openReport } from './profile-file.ts';

/** A model that generates by itself. */
interface GeneratingModel<Inputs extends readonly unknown[]> {
  generate(...inputs: Inputs): unknown;
}

/** Options of `getModelProfile`. The names are those of DeepSpeed. */
export interface ModelProfileOptions<
  Inputs extends readonly unknown[],
> extends FlopsProfilerOptions {
  /** The arguments of the model's `forward`. */
  readonly args: Inputs;
  /** Whether forward passes are profiled, or `model.generate(...args)`, which has no times of modules. Default: forward. */
  readonly mode?: 'forward' | 'generate';
  /** The passes before the one that is measured. The first one compiles programs. Default: 1. */
  readonly warmUp?: number;
}

const rules: OptionRules<ModelProfileOptions<readonly unknown[]>> = {
  ...profilerRules,
  args: option.required({
    fits: (value): value is readonly unknown[] => Array.isArray(value),
    expected: 'the arguments of forward, in a list',
  }),
  mode: option.oneOf('forward', 'generate'),
  warmUp: option.count,
};

/**
 * Runs forward passes of a model without gradients, and returns the operations, parameters and times of its modules.
 * The modes of the model and random numbers are those of the program: call `model.eval()` for those of inference.
 * Throws ConfigError, and the errors of the model.
 */
export async function getModelProfile<const Inputs extends readonly unknown[]>(
  model: Module & GeneratingModel<Inputs>,
  options: ModelProfileOptions<Inputs> & { readonly mode: 'generate' },
): Promise<ModelProfile>;
export async function getModelProfile<const Inputs extends readonly unknown[]>(
  model: Module & Model<Inputs, unknown>,
  options: ModelProfileOptions<Inputs> & { readonly mode?: 'forward' },
): Promise<ModelProfile>;
export async function getModelProfile<const Inputs extends readonly unknown[]>(
  model: Module & Partial<Model<Inputs, unknown> & GeneratingModel<Inputs>>,
  options: ModelProfileOptions<Inputs>,
): Promise<ModelProfile> {
  checkOptions<ModelProfileOptions<readonly unknown[]>>('getModelProfile', options, rules);
  const { args, mode = 'forward', warmUp = 1, outputFile, ...ofProfiler } = options;
  const profiler = new FlopsProfiler(model, ofProfiler);
  const write = outputFile === undefined ? undefined : openReport(outputFile);
  for (let pass = 0; pass < warmUp; pass++) await profileOnce(profiler, model, args, mode);
  const profile = await profileOnce(profiler, model, args, mode);
  write?.(profile.toString());
  return profile;
}

async function profileOnce<Inputs extends readonly unknown[]>(
  profiler: FlopsProfiler,
  model: Partial<Model<Inputs, unknown> & GeneratingModel<Inputs>>,
  args: Inputs,
  mode: 'forward' | 'generate',
): Promise<ModelProfile> {
  profiler.startProfile();
  const olderId = newestNodeId();
  try {
    if (mode === 'generate') {
      if (model.generate === undefined) throw hasNo('generate()');
      await currentSession().realize(nodesIn(await model.generate(...args)));
    } else {
      if (model.forward === undefined) throw hasNo('forward()');
      const { forward } = model;
      const output = noGrad<unknown>(() => Reflect.apply(forward, model, args));
      // The program cannot read what the pass has made. Otherwise the first run would compute all small values.
      forgetValues(nodesSince(nodesIn(output), olderId));
      await profiler.measureForward(output);
    }
  } catch (error) {
    profiler.stopProfile();
    throw error;
  }
  return profiler.stopProfile();
}

function hasNo(method: string): ConfigError {
  return new ConfigError(
    {
      asked: `the profile of ${method} of a model`,
      found: `the model has no ${method}`,
      todo: "Pass mode: 'forward' for models with forward(), and mode: 'generate' for those with generate(...args)",
    },
    { method },
  );
}
