import { ConfigError, type Module } from '@shardwise/core/extend';
import type { LossOfPass } from './loss-of-pass.ts';
import { parameterCount } from './parameter-count.ts';

/** How the inputs of a pass are divided: the first ones go to the model, and the rest to the loss. */
export interface PassInputs {
  readonly modelInputs: number;
  /** Whether the microbatches compute the loss. Otherwise they return the model's output. */
  readonly hasLoss: boolean;
}

/**
 * Gives the model as many inputs as its forward() has parameters, and the rest to the loss. An evaluation without
 * targets returns the model's output, unless the loss takes no targets at all. Throws ConfigError for inputs that fit
 * neither, and for a training pass without the targets of its loss.
 */
export function passInputs(
  { length: count }: readonly unknown[],
  loss: LossOfPass | null,
  model: Module,
  isTraining: boolean,
): PassInputs {
  if (loss === null) return { modelInputs: count, hasLoss: false };
  const modelInputs = Math.min(count, loss.modelInputs ?? inputsOf(model));
  const targets = count - modelInputs;
  if (targets > loss.most) throw tooMany(count, modelInputs, loss.most);
  if (targets > 0 || loss.most === 0) return { modelInputs, hasLoss: true };
  if (isTraining && loss.least > 0) throw withoutTargets(count);
  return { modelInputs, hasLoss: isTraining };
}

/** Returns how many inputs forward() takes. Throws ConfigError if they cannot be counted. */
function inputsOf(model: Module): number {
  // A wrapper that strategies and hooks put around forward() has a rest parameter, so the prototype is asked, too.
  const owners: unknown[] = [model, Object.getPrototypeOf(model)];
  for (const owner of owners) {
    const forward: unknown =
      typeof owner === 'object' && owner !== null ? Reflect.get(owner, 'forward') : null;
    const count = typeof forward === 'function' ? parameterCount(String(forward)) : null;
    if (count !== null && Number.isFinite(count)) return count;
  }
  throw new ConfigError(
    {
      asked: `a pass of a pipeline of ${model.constructor.name}, whose loss takes targets after the model's inputs`,
      found: 'a forward() whose parameters cannot be counted',
      todo: 'Say how many inputs the model takes: pipeline({ inputs: 1, loss, … })',
    },
    { model: model.constructor.name },
  );
}

function tooMany(inputs: number, modelInputs: number, most: number): ConfigError {
  return new ConfigError(
    {
      asked: 'a pass of a pipeline',
      found: `${inputs} inputs; the model takes ${modelInputs} of them and the loss at most ${most} in addition to the model's output`,
      todo: "Pass the model's inputs and then those of the loss. If forward() does not have a parameter for each of its inputs, say how many there are: pipeline({ inputs: 2, … })",
    },
    { inputs, modelInputs, targets: most },
  );
}

function withoutTargets(inputs: number): ConfigError {
  return new ConfigError(
    {
      asked: 'a training pass of a pipeline whose loss takes targets',
      found: `${inputs} ${inputs === 1 ? 'input' : 'inputs'}, and the model takes all of them`,
      todo: "Pass the targets after all of the model's inputs, with undefined for optional inputs that are left out. To get only the output, use noGrad(), or eval() of the model",
    },
    { inputs },
  );
}
