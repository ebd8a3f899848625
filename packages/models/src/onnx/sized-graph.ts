import type { OnnxGraph, OnnxNode } from '@shardwise/backend-cpu/onnx';
import {
  ConfigError,
  type DType,
  formatShape,
  Sized,
  type SizeFormula,
} from '@shardwise/core/extend';
import { type SizeAxis, symbolOf } from './dynamic-axes.ts';
import { Fingerprints, scalarContent } from './fingerprints.ts';
import type { SizeNodes } from './size-nodes.ts';
import type { Trace, Traces } from './traces.ts';

/**
 * The graph of a model for all sizes of its axes. Lists of sizes that depend on them are computed by nodes, which
 * `sizeNodes` makes. Throws ConfigError that names an op whose sizes do not follow from those of the inputs, and if the
 * model computes in another way at the smallest or largest size of an axis.
 */
export function sizedGraph<Inputs extends readonly unknown[]>(
  traces: Traces<Inputs>,
  axes: readonly SizeAxis[],
  sizeNodes: SizeNodes,
): OnnxGraph {
  const symbols = axes.map(symbolOf);
  const seen = axes.map((axis) => axis.seen);
  // What the model cannot do at all fails here, with its own error.
  traces.graphAt(seen, new Map());
  const constants = Sized.of(symbols, (sizes) => constantsOf(traces.at(sizes)));
  if (constants === undefined) throw explained(traces, axes);
  const given = givenConstants(constants, seen, sizeNodes);
  const names = new Map(given.map(({ index, name }) => [index, name]));
  const graph = Sized.of(symbols, (sizes) => traces.graphAt(sizes, names));
  if (graph === undefined) throw explained(traces, axes);
  requireFixedAttributes(graph.pattern().nodes);

  const prints = new Fingerprints();
  const isEqualAt = (sizes: readonly number[]): boolean => {
    const values = constants.at(sizes);
    const scalars = new Map(
      given.map(({ index, name }) => [name, numberContent(values[index]?.value ?? 0)]),
    );
    const own = prints.of(graph.at(sizes), scalars);
    return own === prints.of(traces.graphAt(sizes, new Map()), new Map());
  };
  for (const [index, axis] of axes.entries()) {
    for (const size of [axis.min, axis.max]) {
      const others = axes.map((other) => Math.min(Math.max(other.seen, 2) + 1, other.max));
      requireEqual(axis, size, () => isEqualAt(others.with(index, size)));
    }
  }
  return withSizes(graph, sizeNodes);
}

interface ConstantOf {
  readonly op: string;
  readonly dtype: DType;
  readonly value: number | null;
}

function constantsOf({ instructions }: Trace): readonly ConstantOf[] {
  return instructions.map(({ op, dtype, params }) => ({
    op,
    dtype,
    value: op === 'constant' && 'value' in params ? params.value : null,
  }));
}

/** The constants whose numbers depend on sizes, such as the divisor of a mean, as scalars of the graph. */
function givenConstants(
  constants: Sized<readonly ConstantOf[]>,
  seen: readonly number[],
  sizeNodes: SizeNodes,
): readonly { readonly index: number; readonly name: string }[] {
  const formulas: SizeFormula[] = [];
  const pattern = constants.with((formula) => {
    formulas.push(formula);
    return Number.NaN;
  });
  const fixed = constants.at(seen);
  const isGiven = (value: number | null | undefined): boolean => Number.isNaN(value);
  const indices = [...pattern.keys()].filter(
    (index) => isGiven(pattern[index]?.value) && !isGiven(fixed[index]?.value),
  );
  return indices.map((index, at) => {
    const dtype = pattern[index]?.dtype;
    const formula = formulas[at];
    if (dtype !== 'f32' || formula === undefined) {
      throw new ConfigError(
        {
          asked: 'an ONNX file with dims of any size',
          found: `a constant of ${dtype} that depends on them`,
          todo: 'Compute with f32, or fix the dims with dynamicAxes: {}',
        },
        { op: 'constant', dtype },
      );
    }
    return { index, name: sizeNodes.scalar(formula, dtype) };
  });
}

function numberContent(value: number): string {
  return scalarContent('f32', new Uint8Array(Float32Array.of(value).buffer));
}

function requireFixedAttributes(nodes: readonly OnnxNode[]): void {
  for (const { op, attributes } of nodes) {
    for (const [name, attribute] of Object.entries(attributes)) {
      const numbers =
        'ints' in attribute ? attribute.ints : 'int' in attribute ? [attribute.int] : [];
      if (!numbers.some(Number.isNaN)) continue;
      throw new ConfigError(
        {
          asked: 'an ONNX file with dims of any size',
          found: `${op}, whose ${name} depends on them and is fixed in a file`,
          todo: 'Fix the dims on which it depends: name only the others in dynamicAxes',
        },
        { op, attribute: name },
      );
    }
  }
}

/** Checks an end of the sizes of an axis, where models may compute in another way than near the sample. */
function requireEqual(axis: SizeAxis, size: number, isEqual: () => boolean): void {
  let cause: unknown;
  try {
    if (isEqual()) return;
  } catch (error) {
    cause = error;
  }
  throw new ConfigError(
    {
      asked: `an ONNX file for ${axis.name} from ${axis.min} to ${axis.max}`,
      found:
        cause === undefined
          ? `with ${size}, the model computes in another way than with sizes near ${axis.seen}`
          : `with ${size}, the model throws: ${messageOf(cause)}`,
      todo: `Give the sizes for which the file is made in dynamicAxes, such as { name: '${axis.name}', ${size === axis.min ? 'min' : 'max'}: ${axis.seen} }, or a sample of another size`,
    },
    { axis: axis.name, size },
    { cause },
  );
}

/** The graph in which nodes compute what depends on sizes. */
function withSizes(graph: Sized<OnnxGraph>, sizeNodes: SizeNodes): OnnxGraph {
  const formulas: SizeFormula[] = [];
  // Sizes are whole, so a number with a half stands for a formula.
  const { nodes, initializers, inputs, outputs } = graph.with(
    (formula) => formulas.push(formula) - 0.5,
  );
  const formulaOf = (size: number): number | SizeFormula =>
    Number.isInteger(size) ? size : (formulas[size - 0.5] ?? size);
  const fixed = initializers.filter((each) => {
    if (!('sizes' in each) || each.sizes.every(Number.isInteger)) return true;
    sizeNodes.list(each.name, each.sizes.map(formulaOf));
    return false;
  });
  const described = outputs.map((output) => ({
    ...output,
    shape: output.shape.map((size) => {
      const formula = typeof size === 'number' ? formulaOf(size) : size;
      return typeof formula === 'object' ? sizeNodes.describe(formula) : formula;
    }),
  }));
  return { nodes, initializers: fixed, inputs, outputs: described };
}

/** The error for a model whose sizes do not follow from those of its inputs. It names the first op with such sizes. */
function explained<Inputs extends readonly unknown[]>(
  traces: Traces<Inputs>,
  axes: readonly SizeAxis[],
): ConfigError {
  const seen = axes.map((axis) => axis.seen);
  const steps = [3, 5].map((step) => axes.map((_, index) => index + step));
  const found: Trace[] = [];
  for (const step of steps) {
    const sizes = seen.map((size, index) => size + (step[index] ?? 0));
    try {
      found.push(traces.at(sizes));
    } catch (cause) {
      const where = axes.map(({ name }, index) => `${name} = ${sizes[index]}`).join(', ');
      return unsized(`with ${where}, the model throws: ${messageOf(cause)}`, '', cause);
    }
  }
  const [first, second] = found;
  for (const [index, instruction] of (first?.instructions ?? []).entries()) {
    const other = second?.instructions[index];
    const at = (sizes: readonly number[]): unknown => {
      const { op, shape, params, inputs } = traces.at(sizes).instructions[index] ?? {};
      return { op, shape, params, inputs };
    };
    if (other?.op === instruction.op && Sized.of(axes.map(symbolOf), at) !== undefined) continue;
    const { op, shape } = instruction;
    const others = `${other?.op ?? 'nothing'} ${formatShape(other?.shape ?? [])}`;
    return unsized(`${op} ${formatShape(shape)} at some sizes is ${others} at others`, op);
  }
  return unsized('the tensors that the forward pass makes of numbers depend on the sizes', 'input');
}

function unsized(found: string, op: string, cause?: unknown): ConfigError {
  return new ConfigError(
    {
      asked: 'an ONNX file with dims of any size',
      found,
      todo: 'Let sizes follow from those of the inputs, or fix the dims: name only the others in dynamicAxes',
    },
    { op },
    { cause },
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
