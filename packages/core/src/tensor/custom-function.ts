import { noGrad } from '../graph/create-node.ts';
import { composedAll, withoutValues } from '../realize/pending/small-values.ts';
import { formatShape, sameShape } from '../base/shape.ts';
import { checkOptions } from '../base/check-options.ts';
import { ShapeError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { requireTensors } from './check-arguments.ts';
import { withOwnGradient } from './own-gradient.ts';
import { Tensor } from './tensor.ts';

/** The values that `backward` of a custom function may read. */
export interface FunctionContext {
  readonly inputs: readonly Tensor[];
  readonly output: Tensor;
}

/** A function of tensors with its own gradient: torch.autograd.Function. */
export interface FunctionDefinition {
  /** The name of the function in errors. */
  readonly name: string;
  /** The computation. Its operations have no gradients here. */
  readonly forward: (...inputs: Tensor[]) => Tensor;
  /**
   * Computes the gradient of each input from the gradient of the output. Each has the shape of its input, or is null if
   * there is none. For one input, the list may be left out. Expressions of the inputs are differentiable, for second
   * derivatives.
   */
  readonly backward: (
    gradient: Tensor,
    context: FunctionContext,
  ) => Tensor | null | readonly (Tensor | null)[];
}

const definitionRules: OptionRules<FunctionDefinition> = {
  name: option.required(option.nonEmptyText),
  forward: option.required(option.callback()),
  backward: option.required(option.callback()),
};

/**
 * Makes a function whose gradient is `backward` instead of that of the operations in `forward`, for example a
 * rounding that lets gradients pass. Calls throw ShapeError for a gradient whose shape is not that of its
 * input. Shape: any -> any.
 */
export function customFunction(definition: FunctionDefinition): (...inputs: Tensor[]) => Tensor {
  checkOptions('customFunction', definition, definitionRules);
  const { name, forward, backward } = definition;
  return (...inputs) => {
    requireTensors(name, Object.fromEntries(inputs.entries()));
    const value = (): Tensor => {
      const output = noGrad(() => forward(...inputs));
      requireTensors(`${name}: forward`, { 'what it returned': output });
      return output;
    };
    return composedAll(
      () => {
        const nodes = inputs.map(({ node }) => node);
        const output = withOwnGradient(
          nodes,
          () => value().node,
          (gradient, own, result) =>
            withoutValues(() => {
              const context = {
                inputs: own.map((node) => new Tensor(node)),
                output: new Tensor(result),
              };
              return checked(name, backward(new Tensor(gradient), context), context.inputs);
            }).map((part) => part?.node ?? null),
        );
        return new Tensor(output);
      },
      (made) => [made],
    );
  };
}

function checked(
  name: string,
  returned: Tensor | null | readonly (Tensor | null)[],
  inputs: readonly Tensor[],
): readonly (Tensor | null)[] {
  const gradients = returned === null || returned instanceof Tensor ? [returned] : returned;
  const isList = Array.isArray(gradients) && gradients.length === inputs.length;
  if (!isList) {
    throw new ShapeError({
      asked: `the gradients of ${name}, which has ${inputs.length} inputs`,
      found: Array.isArray(gradients) ? `${gradients.length} of them` : 'no list of tensors',
      todo: 'Return a tensor or null for each input from backward()',
    });
  }
  gradients.forEach((gradient, i) => {
    if (gradient === null) return;
    requireTensors(`${name}: backward`, { [`the gradient of input ${i}`]: gradient });
    const shape = inputs[i]?.shape ?? [];
    if (sameShape(gradient.shape, shape)) return;
    throw new ShapeError(
      {
        asked: `the gradient of ${name} for input ${i}, of shape ${formatShape(shape)}`,
        found: `one of shape ${formatShape(gradient.shape)}`,
        todo: 'Return a gradient of the shape of the input from backward()',
      },
      { shape, found: gradient.shape },
    );
  });
  return gradients;
}
