import { gradientsBy } from '../autograd/gradients.ts';
import type { Seeded } from '../graph/node.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import { mul } from '../graph/ops/elementwise.ts';
import { allDims, sum } from '../graph/ops/movement.ts';
import { detach } from '../graph/ops/graph-ops.ts';
import { noGrad } from '../graph/create-node.ts';
import { type DistributedValue, localOf, type Node } from '../graph/node.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import { elementCount, formatShape, sameShape } from '../base/shape.ts';
import { checkOptions } from '../base/check-options.ts';
import { ShapeError, TensorStateError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { requireTensors } from './check-arguments.ts';
import { Tensor } from './tensor.ts';

/** Options of `grad`. */
export interface GradOptions {
  /** The gradients of the outputs, each with its shape. Default for scalars: 1. */
  readonly gradOutputs?: readonly Tensor[];
  /** Whether the gradients are differentiable, for gradient penalties and second derivatives. Default: false. */
  readonly createGraph?: boolean;
  /** Whether the gradient of an input that no output depends on is null instead of an error. Default: false. */
  readonly allowUnused?: boolean;
}

const gradRules: OptionRules<GradOptions> = {
  gradOutputs: option.listOf(option.instanceOf(Tensor)),
  createGraph: option.flag,
  allowUnused: option.flag,
};

/**
 * torch.autograd.grad: the gradients of the sum of the outputs with respect to the inputs, which may be leaves or
 * computed. The `grad` of leaves does not change. Throws TensorStateError for an input that no output depends on, and
 * ShapeError for an output of several elements without `gradOutputs`. Shape: input N -> N.
 */
export function grad(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions & { readonly allowUnused: true },
): (Tensor | null)[];
export function grad(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options?: GradOptions,
): Tensor[];
export function grad(
  outputs: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  options: GradOptions = {},
): (Tensor | null)[] {
  checkOptions('grad', options, gradRules);
  const list = outputs instanceof Tensor ? [outputs] : outputs;
  requireTensors('grad of outputs', Object.fromEntries(list.entries()));
  requireTensors('grad by inputs', Object.fromEntries(inputs.entries()));
  const { gradOutputs, createGraph = false, allowUnused = false } = options;
  const seeded = list.map((output, i) => seededBy('grad', output.node, gradOutputs?.[i]?.node));
  const nodes = inputs.map(({ node }) => localOf(node));
  const found = withoutValues(() => gradientsBy(seeded, nodes, createGraph));
  return found.map((gradient, i) => {
    const whole = inputs[i]?.node.distributed;
    if (gradient !== null) return gradientTensor(gradient, createGraph, whole);
    if (allowUnused) return null;
    throw unused(i, nodes[i]?.shape ?? []);
  });
}

/** The value of a function, and the product of a vector with its Jacobian. */
export interface Vjp {
  readonly output: Tensor;
  /** The gradient of each input, with the shape of the input. */
  readonly gradients: readonly Tensor[];
}

/** A function's value, and its derivative in one direction. */
export interface Jvp {
  readonly output: Tensor;
  /** The derivative of the output in the direction. It has the shape of the output. */
  readonly tangent: Tensor;
}

/**
 * torch.autograd.functional.vjp: the gradients of the inputs of a function, given the `gradient` of its output,
 * which may be left out for a scalar. Shape: gradient as the output -> gradients as the inputs.
 */
export function vjp(
  f: (...inputs: Tensor[]) => Tensor,
  inputs: readonly Tensor[],
  gradient?: Tensor,
): Vjp {
  const variables = inputs.map(({ node }) => variableOf(node));
  const output = f(...variables.map((node) => new Tensor(node)));
  const seeded = seededBy('vjp', output.node, gradient?.node);
  const found = withoutValues(() => gradientsBy([seeded], variables, false));
  const gradients = variables.map((node, i) => new Tensor(found[i] ?? constantLike(node, 0)));
  return { output, gradients };
}

/**
 * torch.autograd.functional.jvp: the change of the output of a function if its inputs change along `tangents`.
 * It is computed as the gradient of a gradient (the "double backward trick"). Shape: tangents as the inputs ->
 * tangent as the output.
 */
export function jvp(
  f: (...inputs: Tensor[]) => Tensor,
  inputs: readonly Tensor[],
  tangents: readonly Tensor[],
): Jvp {
  requireTensors('jvp along tangents', Object.fromEntries(tangents.entries()));
  const variables = inputs.map(({ node }) => variableOf(node));
  const output = f(...variables.map((node) => new Tensor(node)));
  const along = variables.map(({ shape }, i) => {
    const tangent = tangents[i]?.node;
    if (tangent !== undefined && sameShape(tangent.shape, shape)) return tangent;
    throw otherShape('jvp', `tangent ${i}`, tangent?.shape, shape);
  });
  const tangent = withoutValues(() => {
    const weight = variableOf(noGrad(() => constantLike(output.node, 0)));
    const found = gradientsBy([{ output: output.node, gradient: weight }], variables, true);
    const terms = found.flatMap((gradient, i) => {
      const own = along[i];
      if (gradient === null || own === undefined || !gradient.requiresGrad) return [];
      const products = mul(gradient, own);
      const total = sum(products, allDims(products));
      return [{ output: total, gradient: constantLike(total, 1) }];
    });
    if (terms.length === 0) return constantLike(output.node, 0);
    return gradientsBy(terms, [weight], false)[0] ?? constantLike(output.node, 0);
  });
  return { output, tangent: new Tensor(tangent) };
}

/** The part of this rank, if the output is distributed. */
function localSeed(output: Node, gradient: Node): Seeded {
  const { distributed } = output;
  if (distributed === null) return { output, gradient };
  return { output: distributed.local, gradient: distributed.gradientPart(gradient) };
}

/** Returns a node with the same value, from which a new graph begins: gradients stop at it. */
function variableOf(node: Node): Node {
  if (node.distributed !== null) {
    throw new TensorStateError(
      {
        asked: `vjp() or jvp() by a distributed tensor of shape ${formatShape(node.shape)}`,
        found: 'derivatives by the whole, of which each rank has a part',
        todo: 'Use autograd.grad(), or have the function make the tensor distributed',
      },
      { shape: node.shape },
    );
  }
  const variable = detach(node);
  variable.requiresGrad = true;
  return variable;
}

function gradientTensor(node: Node, createGraph: boolean, whole?: DistributedValue | null): Tensor {
  // The mark makes a later backward() through this gradient an error.
  if (!createGraph) node.ofGradient = true;
  return new Tensor(whole?.gradientOf(node) ?? node);
}

/**
 * Returns an output with the gradient to start from, which is 1 by default. Throws ShapeError for a gradient with
 * another shape than the output, and for an output of several elements without a gradient.
 */
function seededBy(op: string, output: Node, gradient: Node | undefined): Seeded {
  if (gradient !== undefined) {
    if (sameShape(gradient.shape, output.shape)) return localSeed(output, gradient);
    throw otherShape(op, 'the gradient of an output', gradient.shape, output.shape);
  }
  if (elementCount(output.shape) === 1) return localSeed(output, constantLike(output, 1));
  throw new ShapeError(
    {
      asked: `${op} of an output of shape ${formatShape(output.shape)}`,
      found: `${elementCount(output.shape)} elements`,
      todo: 'Reduce it to a scalar first, for example with .sum(), or give its gradient',
    },
    { shape: output.shape },
  );
}

function otherShape(
  op: string,
  what: string,
  found: readonly number[] | undefined,
  asked: readonly number[],
): ShapeError {
  return new ShapeError(
    {
      asked: `${op}, where ${what} is of shape ${formatShape(asked)}`,
      found: found === undefined ? 'none' : `one of shape ${formatShape(found)}`,
      todo: 'Give one of the same shape',
    },
    { asked, found },
  );
}

function unused(index: number, shape: readonly number[]): TensorStateError {
  return new TensorStateError(
    {
      asked: `grad by input ${index}, of shape ${formatShape(shape)}`,
      found: 'no output depends on it by what has gradients',
      todo: 'Call requiresGrad_() on it before it is used, or pass { allowUnused: true } and expect null',
    },
    { input: index, shape },
  );
}
