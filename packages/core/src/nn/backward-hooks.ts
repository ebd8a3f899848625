import { synchronously } from '../ambient.ts';
import { isGradEnabled } from '../graph/create-node.ts';
import { constantLike } from '../graph/build/leaf.ts';
import { withoutValues } from '../realize/small-values.ts';
import { formatShape, sameShape } from '../shape.ts';
import { ShapeError } from '../spec/errors.ts';
import { requireTensors } from '../tensor/check-arguments.ts';
import { withOwnGradient } from '../tensor/own-gradient.ts';
import { Tensor } from '../tensor/tensor.ts';

/** For each input or output, its gradient; null if it is not a tensor, or has no gradient. */
export type Gradients = readonly (Tensor | null)[];

/**
 * Called in backward() when the gradients of the inputs of forward() are complete. If it returns gradients,
 * these replace them. `gradOutput` contains those of the tensors that forward() returned, including tensors in
 * lists, one after the other.
 */
export type FullBackwardHook<M> = (
  module: M,
  gradInput: Gradients,
  gradOutput: Gradients,
) => Gradients | undefined | void;

/** Runs `forward` such that the gradients of its inputs and outputs come to the hooks that there are then. */
export function withBackwardHooks<M extends object>(
  module: M,
  hooks: ReadonlySet<FullBackwardHook<M>>,
  inputs: readonly unknown[],
  forward: (inputs: readonly unknown[]) => unknown,
): unknown {
  if (hooks.size === 0 || !isGradEnabled()) return forward(inputs);
  let gradOutput: Gradients = [];
  const finish = (gradInput: Gradients): Gradients => {
    let result: Gradients = gradInput.map((gradient, i) => gradient ?? zerosOf(inputs[i]));
    for (const hook of hooks) {
      const before = result;
      const changed = synchronously('a backward hook', () => hook(module, before, gradOutput));
      if (changed !== undefined) result = checked(module, before, changed);
    }
    return result;
  };
  const gated = gates(inputs, finish);
  const hasGradient = gated.some((input, i) => input !== inputs[i]);
  const output = forward(gated);
  const tensors = tensorsIn(output);
  const outputs = gates(tensors, (gradients) => {
    gradOutput = gradients;
    if (!hasGradient) finish(inputs.map(() => null));
    return gradients;
  });
  return replaced(output, new Map(tensors.map((tensor, i) => [tensor, outputs[i]])));
}

/**
 * The same values; `complete` is called once in a backward pass, when the gradients of all of them are there, and what
 * it returns goes on. What is no tensor, or has no gradient, is left as it is.
 */
function gates(values: readonly unknown[], complete: (found: Gradients) => Gradients): unknown[] {
  const nodes = values.map((value) =>
    value instanceof Tensor && value.node.requiresGrad ? value.node : null,
  );
  const trained = nodes.filter((node) => node !== null);
  const [some] = trained;
  if (some === undefined) return [...values];
  const found = new Map<number, Tensor>();
  // Older than the gates, which all tell it that they were there: backward comes to it last.
  const last = withOwnGradient(
    trained,
    () => some,
    () => {
      const gradients = nodes.map((_, i) => found.get(i) ?? null);
      found.clear();
      const changed = withoutValues(() => complete(gradients));
      return nodes.flatMap((node, i) => (node === null ? [] : [changed[i]?.node ?? null]));
    },
  );
  return nodes.map((node, i) => {
    if (node === null) return values[i];
    const gate = withOwnGradient(
      [last],
      () => node,
      (gradient) => {
        found.set(i, new Tensor(gradient));
        return [constantLike(last, 0)];
      },
    );
    return new Tensor(gate);
  });
}

/** PyTorch's gradient of an input that forward() did not use. */
function zerosOf(input: unknown): Tensor | null {
  if (!(input instanceof Tensor && input.node.requiresGrad)) return null;
  return new Tensor(constantLike(input.node, 0));
}

/** The tensors of an output, also those in lists. */
function tensorsIn(value: unknown): readonly Tensor[] {
  if (value instanceof Tensor) return [value];
  return Array.isArray(value) ? value.flatMap(tensorsIn) : [];
}

function replaced(value: unknown, by: ReadonlyMap<unknown, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => replaced(item, by));
  return by.get(value) ?? value;
}

/** Throws ShapeError for other gradients than those in whose place they are. */
function checked(module: object, before: Gradients, changed: Gradients): Gradients {
  const { name } = module.constructor;
  const fits =
    Array.isArray(changed) &&
    changed.length === before.length &&
    before.every((gradient, i) => gradient !== null || changed[i] === null);
  if (!fits) {
    throw new ShapeError({
      asked: `a backward hook of ${name}, whose forward() has ${before.length} inputs`,
      found: Array.isArray(changed)
        ? `a list of ${changed.length} gradients that it returned, for inputs that have others`
        : 'what it returned is no list',
      todo: 'Return a list with a gradient for each input that has one, and null for the others; or nothing',
    });
  }
  changed.forEach((gradient, i) => {
    if (gradient === null) return;
    requireTensors(`a backward hook of ${name}`, { [`the gradient of input ${i}`]: gradient });
    const shape = before[i]?.shape ?? [];
    if (sameShape(gradient.shape, shape)) return;
    throw new ShapeError(
      {
        asked: `a backward hook of ${name}: the gradient of input ${i}, of shape ${formatShape(shape)}`,
        found: `one of shape ${formatShape(gradient.shape)} that it returned`,
        todo: 'Return gradients of the same shapes, or nothing',
      },
      { shape, found: gradient.shape },
    );
  });
  return changed;
}
