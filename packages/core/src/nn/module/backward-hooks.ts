import { synchronously } from '../../ambient.ts';
import { isGradEnabled } from '../../graph/create-node.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import { withoutValues } from '../../realize/pending/small-values.ts';
import { formatShape, sameShape } from '../../base/shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { withOwnGradient } from '../../tensor/own-gradient.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** The gradient of each input or output. It is null for a value that is not a tensor or has no gradient. */
export type Gradients = readonly (Tensor | null)[];

/**
 * A function that is called in backward() when the gradients of the inputs of forward() are complete. If it returns
 * gradients, they replace those of the inputs. `gradOutput` contains the gradients of the tensors that forward()
 * returned. Tensors in lists are included, one after the other.
 */
export type FullBackwardHook<M> = (
  module: M,
  gradInput: Gradients,
  gradOutput: Gradients,
) => Gradients | undefined | void;

/** Runs `forward` so that backward() passes the gradients of its inputs and outputs to the hooks that exist by then. */
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
 * Passes values through nodes that observe their gradients. In a backward pass, `complete` is called once, when the
 * gradients of all values are there, and the gradients that it returns flow on. A value that is not a tensor, or has no
 * gradient, stays as it is.
 */
function gates(values: readonly unknown[], complete: (found: Gradients) => Gradients): unknown[] {
  const nodes = values.map((value) =>
    value instanceof Tensor && value.node.requiresGrad ? value.node : null,
  );
  const trained = nodes.filter((node) => node !== null);
  const [some] = trained;
  if (some === undefined) return [...values];
  const found = new Map<number, Tensor>();
  // This node is older than the gates, and each gate sends it a gradient. So backward comes to it after all gates.
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

/** As in PyTorch, the gradient of an input that forward() did not use is zeros. */
function zerosOf(input: unknown): Tensor | null {
  if (!(input instanceof Tensor && input.node.requiresGrad)) return null;
  return new Tensor(constantLike(input.node, 0));
}

/** The tensors of an output, including those in lists. */
function tensorsIn(value: unknown): readonly Tensor[] {
  if (value instanceof Tensor) return [value];
  return Array.isArray(value) ? value.flatMap(tensorsIn) : [];
}

function replaced(value: unknown, by: ReadonlyMap<unknown, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => replaced(item, by));
  return by.get(value) ?? value;
}

/** Checks gradients that a hook returned. Throws ShapeError if they do not match those that they replace. */
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
